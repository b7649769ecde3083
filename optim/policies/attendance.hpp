#pragma once

#include <mailgrad/optim/policies/policy.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace mailgrad {

/// Records which workers take part, and which have a gradient in the pending batch, at most one each. The
/// gradient of a worker that leaves stays in its batch, but the batch no longer waits for that worker.
class attendance {
public:
  void join(rank worker) {
    if (entries_.size() <= worker.value) entries_.resize(worker.value + 1);
    entries_[worker.value].present = true;
    recount();
  }
  /// The same, but a batch that has begun does not wait for this worker: it takes part from the next one on.
  void join_next_batch(rank worker) {
    if (arrived() == 0) return join(worker);
    if (entries_.size() <= worker.value) entries_.resize(worker.value + 1);
    entries_[worker.value].joins = true;
  }
  void leave(rank worker) {
    if (worker.value >= entries_.size()) return;
    entries_[worker.value].present = entries_[worker.value].joins = false;
    recount();
  }
  /// The worker must be awaited.
  void arrive(rank worker) {
    entries_[worker.value].arrived = true;
    ++arrived_;
  }
  void batch_applied() {
    for (entry& e : entries_) e = {e.present || e.joins, false, false};
    recount();
  }

  /// Whether a gradient of this worker is expected: it takes part, and the batch has none of it yet.
  bool awaited(rank worker) const {
    if (worker.value >= entries_.size()) return false;
    return entries_[worker.value].present && !entries_[worker.value].arrived;
  }

  std::size_t arrived() const noexcept { return arrived_; }
  /// The workers of which a batch of this round could be made: those that are present, and those that left a
  /// gradient behind.
  std::size_t expected() const noexcept { return expected_; }

  /// Reading leaves an entry for each worker that has joined before. One that waits for the next batch is
  /// written as present, so a run that is resumed counts it in the batch that has begun.
  void keep(archive& a) {
    const std::size_t joined = entries_.size();
    a.field("entries", entries_);
    entries_.resize(std::max(joined, entries_.size()));
    recount();
  }

private:
  struct entry {
    bool present = false;
    bool arrived = false;
    bool joins = false; ///< when the present batch is applied

    void keep(archive& a) {
      bool counted = present || joins;
      a.field("present", counted);
      a.field("arrived", arrived);
      if (a.reads()) present = counted;
    }
  };
  /// Whoever arrives is present, so that changes no count of those expected.
  void recount() {
    arrived_ = count([](const entry& e) { return e.arrived; });
    expected_ = count([](const entry& e) { return e.arrived || e.present; });
  }
  template <class Predicate>
  std::size_t count(Predicate p) const {
    return static_cast<std::size_t>(std::ranges::count_if(entries_, p));
  }

  std::vector<entry> entries_; ///< by rank
  std::size_t arrived_ = 0;
  std::size_t expected_ = 0;
};

} // namespace mailgrad
