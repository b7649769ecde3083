#pragma once

#include <mailgrad/optim/policies/policy.hpp>

#include <algorithm>
#include <utility>

namespace mailgrad {

/// Records which workers take part, and which have a gradient in the pending batch, at most one each. The
/// gradient of a worker that leaves stays in its batch, but the batch no longer waits for that worker.
class attendance {
public:
  void join(rank worker) {
    entry& e = of(worker);
    if (!e.present && !e.arrived) ++expected_;
    e.present = true;
    first_ = std::min(first_, worker.value);
  }
  /// The same, but a batch that has begun does not wait for this worker: it takes part from the next one on.
  void join_next_batch(rank worker) {
    if (arrived() == 0) return join(worker);
    of(worker).joins = true;
    joining_.push_back(worker);
  }
  void leave(rank worker) {
    if (worker.value >= entries_.size()) return;
    entry& e = entries_[worker.value];
    if (e.present && !e.arrived) --expected_;
    e.present = e.joins = false;
  }
  /// The worker must be awaited.
  void arrive(rank worker) {
    entries_[worker.value].arrived = true;
    in_batch_.push_back(worker);
  }
  void batch_applied() {
    first_ = 0;
    for (const rank worker : in_batch_) {
      entry& e = entries_[worker.value];
      e.arrived = false;
      if (!e.present) --expected_;
    }
    in_batch_.clear();
    for (const rank worker : joining_)
      if (std::exchange(entries_[worker.value].joins, false)) join(worker);
    joining_.clear();
  }
  /// Whether a gradient of this worker is expected: it takes part, and the batch has none of it yet.
  bool awaited(rank worker) const {
    if (worker.value >= entries_.size()) return false;
    return entries_[worker.value].present && !entries_[worker.value].arrived;
  }
  std::optional<rank> first_awaited() const {
    while (first_ < entries_.size() && !awaited({first_})) ++first_;
    return first_ < entries_.size() ? std::optional(rank{first_}) : std::nullopt;
  }
  std::size_t arrived() const noexcept { return in_batch_.size(); }
  /// The workers of which a batch of this round could be made: those that are present, and those that left a
  /// gradient behind.
  std::size_t expected() const noexcept { return expected_; }
  /// Reading leaves an entry for each worker that has joined before.
  void keep(archive& a) {
    const std::size_t joined = entries_.size();
    a.field("entries", entries_);
    entries_.resize(std::max(joined, entries_.size()));
    if (a.reads()) recount();
  }

private:
  struct entry {
    bool present = false;
    bool arrived = false;
    bool joins = false; ///< when the present batch is applied

    void keep(archive& a) {
      a.field("present", present);
      a.field("arrived", arrived);
      a.field("joins", joins);
    }
  };
  entry& of(rank worker) {
    if (entries_.size() <= worker.value) entries_.resize(worker.value + 1);
    return entries_[worker.value];
  }
  void recount() {
    first_ = 0;
    in_batch_.clear();
    joining_.clear();
    expected_ = 0;
    for (std::uint32_t r = 0; r < entries_.size(); ++r) {
      if (entries_[r].arrived) in_batch_.push_back({r});
      if (entries_[r].joins) joining_.push_back({r});
      if (entries_[r].arrived || entries_[r].present) ++expected_;
    }
  }

  std::vector<entry> entries_; ///< by rank
  // A batch of a few of thousands of workers takes no look at the others.
  std::vector<rank> in_batch_; ///< who has a gradient in it
  std::vector<rank> joining_;  ///< who joins when it is applied, and some that have left since
  std::size_t expected_ = 0;
  mutable std::uint32_t first_ = 0; ///< nobody of a lower rank is awaited
};

/// The common part of policies under which a worker has at most one gradient in a batch, and waits until the
/// update is made.
class attended_policy : public policy {
public:
  bool makes_batches() const noexcept override { return true; }
  bool holds_until_update() const noexcept override { return true; }
  void join(rank worker) override { workers_.join(worker); }
  void leave(rank worker) override { workers_.leave(worker); }
  decision judge(const gradient_stamp& g) override {
    if (!workers_.awaited(g.worker)) return {verdict::discard, "not awaited"};
    workers_.arrive(g.worker);
    return {verdict::merge};
  }
  void batch_applied() override { workers_.batch_applied(); }
  bool may_start(rank worker) const override { return workers_.awaited(worker); }
  void keep(archive& a) override {
    a.version(1);
    a.field("workers", workers_);
  }

protected:
  attendance workers_;
};

} // namespace mailgrad
