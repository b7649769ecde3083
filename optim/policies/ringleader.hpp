#pragma once

#include <mailgrad/optim/policies/policy.hpp>

#include <cstdint>
#include <vector>

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
  void join(rank worker) override;
  void leave(rank worker) override;
  decision judge(const gradient_stamp& g) override;
  bool batch_complete() const override { return due_; }
  void batch_applied() override;
  bool may_start(rank worker) const override {
    return worker.value < workers_.size() && workers_[worker.value].present;
  }
  bool renews(rank worker) const override { return workers_[worker.value].renewed; }
  void keep(archive& a) override;

private:
  struct entry {
    bool present = false;
    bool sent = false;       ///< has a gradient in the table
    bool sent_early = false; ///< in that of the next round
    bool served = false;     ///< has had its update of this round
    bool renewed = true;     ///< gets the present weights when it starts next

    void keep(archive& a);
  };

  bool anybody() const;
  bool all_have(bool entry::*what) const;
  void settle();
  void turn_over();

  std::vector<entry> workers_; ///< by rank
  bool collecting_ = true;
  bool waits_ = false;    ///< some gradient of the table is in no update yet
  bool deferred_ = false; ///< some gradient waits for the next round
  bool due_ = false;      ///< an update
  std::uint64_t rounds_ = 0;
};

} // namespace mailgrad
