#pragma once

#include <mailgrad/optim/policies/policy.hpp>

#include <algorithm>
#include <utility>

namespace mailgrad {

/// Asynchronous on unlike data: each update is made of the mean of each worker's mean, (1/n) sum_i G_i / b_i,
/// from a table of sums that is filled once a round. Nobody waits, and nothing is dropped.
///
///     collecting --a gradient of every worker is in the table: update, for the last of them--> serving
///         ^                                                                                      |
///         |         serving: a worker's first gradient goes into the table, and makes an update;
///         |                  a further one is deferred to the next round
///         +--each worker has had its update: what was deferred is the table of the next round----+
///
/// A worker gets new weights with its update alone, once a round; until then it goes on from those that it
/// has. So a round has an update for each of n workers, and a gradient is at most 2 n - 2 versions old.
///
/// A worker that leaves is awaited no longer, and what it has sent stays in its round. One that joins while
/// others are served takes part from the next round on. When nobody is left, what is in no update yet is
/// applied.
/// Source  Maranjyan & Richtarik, "Ringleader ASGD: The First Asynchronous SGD with Optimal Time Complexity
///         under Data Heterogeneity", ICLR 2026, arXiv:2509.22860.
class ringleader_policy final : public policy {
public:
  static constexpr std::string_view policy_name = "ringleader";
  std::string_view name() const noexcept override { return policy_name; }
  bool shards_agree() const noexcept override { return true; }
  bool makes_batches() const noexcept override { return true; }
  weighing weighs() const noexcept override { return weighing::workers; }
  bool has_rounds() const noexcept override { return true; }
  std::uint64_t rounds_over() const noexcept override { return rounds_; }
  void join(rank worker) override {
    if (workers_.size() <= worker.value) workers_.resize(worker.value + 1);
    entry& newcomer = workers_[worker.value];
    newcomer.present = newcomer.renewed = true;
    newcomer.served = !collecting_;
  }
  void leave(rank worker) override {
    if (worker.value < workers_.size()) workers_[worker.value].present = false;
    settle();
  }
  decision judge(const gradient_stamp& g) override {
    if (!may_start(g.worker)) return {verdict::discard, "not awaited"};
    entry& sender = workers_[g.worker.value];
    sender.renewed = false;
    if (sender.served) {
      sender.sent_early = deferred_ = true;
      return {verdict::defer};
    }
    sender.sent = waits_ = true;
    if (collecting_ && !all_have(&entry::sent)) return {verdict::merge};
    collecting_ = false;
    sender.served = sender.renewed = due_ = true;
    return {verdict::merge};
  }
  bool batch_complete() const override { return due_; }
  void batch_applied() override {
    due_ = waits_ = false;
    settle();
  }
  bool may_start(rank worker) const override {
    return worker.value < workers_.size() && workers_[worker.value].present;
  }
  bool renews(rank worker) const override { return workers_[worker.value].renewed; }
  void keep(archive& a) override {
    const std::size_t joined = workers_.size();
    a.version(1);
    a.field("workers", workers_);
    workers_.resize(std::max(joined, workers_.size()));
    a.field("collecting", collecting_);
    a.field("waits", waits_);
    a.field("deferred", deferred_);
    a.field("due", due_);
    a.field("rounds", rounds_);
  }

private:
  struct entry {
    bool present = false;
    bool sent = false;       ///< has a gradient in the table
    bool sent_early = false; ///< in that of the next round
    bool served = false;     ///< has had its update of this round
    bool renewed = true;     ///< gets the present weights when it starts next

    void keep(archive& a) {
      a.field("present", present);
      a.field("sent", sent);
      a.field("sent_early", sent_early);
      a.field("served", served);
    }
  };

  bool anybody() const { return std::ranges::any_of(workers_, &entry::present); }
  bool all_have(bool entry::*what) const {
    return std::ranges::all_of(workers_, [=](const entry& w) { return !w.present || w.*what; });
  }
  /// Ends a part of the round, or the round, if nobody is awaited in it any more.
  void settle() {
    if (due_) return;
    const bool over = !anybody() || (!collecting_ && all_have(&entry::served));
    due_ = over && waits_;
    if (over && !waits_) turn_over();
    if (!anybody())
      due_ = waits_;
    else if (!due_ && all_have(&entry::sent))
      collecting_ = false;
  }
  void turn_over() {
    ++rounds_;
    collecting_ = true;
    waits_ = std::exchange(deferred_, false);
    for (entry& w : workers_) {
      w.sent = std::exchange(w.sent_early, false);
      w.served = false;
    }
  }

  std::vector<entry> workers_; ///< by rank
  bool collecting_ = true;
  bool waits_ = false;    ///< some gradient of the table is in no update yet
  bool deferred_ = false; ///< some gradient waits for the next round
  bool due_ = false;      ///< an update
  std::uint64_t rounds_ = 0;
};

} // namespace mailgrad
