#pragma once

#include <mailgrad/tests/actors/run_checks.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace mailgrad::testing {

/// Sees what one shard hears and says, keeps books of its own by the definitions of the policies, and expects
/// the shard to keep to them. It knows async, ssp:S and sync, and switches between them.
class shard_witness {
public:
  shard_witness(std::vector<std::string> policies, std::uint32_t workers)
      : policies_(std::move(policies)), notes_(workers), present_(workers, true) {}

  /// Where a gradient makes a version of its own, no version may come from two; at a barrier, none but from
  /// one of each worker, all computed from the version before.
  void hears(const push_gradient& x) {
    exchange_notes& with = notes_[x.worker.value];
    ASSERT_FALSE(with.versions_read.empty()) << "worker " << x.worker.value << " has read nothing";
    EXPECT_EQ(x.version_read, with.versions_read.back()) << "worker " << x.worker.value;
    EXPECT_EQ(x.epoch, epoch_) << "a gradient of another policy came through the fence";
    with.steps_pushed.push_back(x.step);
    if (!at_barrier()) {
      ++version_;
      return;
    }
    EXPECT_EQ(x.version_read, version_)
        << "a barrier lets in worker " << x.worker.value << " from another round";
    EXPECT_EQ(std::ranges::count(round_, x.worker.value), 0) << "twice in a round";
    round_.push_back(x.worker.value);
    close_round_if_complete();
  }

  void hears(const worker_left& x) {
    present_[x.worker.value] = false;
    close_round_if_complete();
  }

  void says(rank to, const shard_weights& x) {
    exchange_notes& with = notes_[to.value];
    EXPECT_EQ(x.epoch, epoch_);
    EXPECT_EQ(x.version, version_) << "not every gradient made its share of one version";
    if (at_barrier()) {
      EXPECT_EQ(std::ranges::count(round_, to.value), 0) << "let go before its barrier opened";
    }
    if (policy().starts_with("ssp:")) {
      EXPECT_LE(lead_of(to), std::stoul(policy().substr(4))) << "what it reads lacks steps of the slowest";
    }
    with.versions_read.push_back(x.version);
    with.epochs_read.push_back(x.epoch);
  }

  /// A batch that nobody completes is closed.
  void says(const policy_switched& x) {
    if (!round_.empty()) close_round();
    epoch_ = x.epoch;
  }

  void says(const shard_report& x) const {
    EXPECT_EQ(x.version, version_);
    EXPECT_EQ(epoch_ + 1, policies_.size()) << "a switch is missing";
    for (std::size_t r = 0; r < notes_.size(); ++r) {
      expect_each_step_once(x.workers[r], notes_[r]);
      if (policies_.size() == 1 && at_barrier()) {
        EXPECT_EQ(x.workers[r].gaps.max(), 0U);
      }
    }
    std::vector<const exchange_notes*> of_workers;
    for (const exchange_notes& n : notes_) of_workers.push_back(&n);
    if (policies_.size() == 1 && policies_[0] == "async") expect_staleness_conserved(x, of_workers);
    expect_epochs_begin_at_one_version(of_workers);
  }

  std::uint64_t epoch() const { return epoch_; }

private:
  const std::string& policy() const { return policies_[epoch_]; }
  bool at_barrier() const { return policy() == "sync"; }
  /// Steps that a worker is ahead of the slowest who takes part.
  std::size_t lead_of(rank worker) const {
    const std::size_t steps = notes_[worker.value].steps_pushed.size();
    std::size_t slowest = steps;
    for (std::size_t r = 0; r < notes_.size(); ++r)
      if (present_[r]) slowest = std::min(slowest, notes_[r].steps_pushed.size());
    return steps - slowest;
  }
  void close_round_if_complete() {
    if (round_.empty()) return;
    for (std::uint32_t r = 0; r < present_.size(); ++r)
      if (present_[r] && std::ranges::count(round_, r) == 0) return;
    close_round();
  }
  void close_round() {
    round_.clear();
    ++version_;
  }

  std::vector<std::string> policies_; ///< by epoch
  std::vector<exchange_notes> notes_; ///< by rank
  std::vector<bool> present_;         ///< by rank
  std::vector<std::uint32_t> round_;  ///< whose gradients wait at the barrier
  std::uint64_t version_ = 0;
  std::uint64_t epoch_ = 0;
};

} // namespace mailgrad::testing
