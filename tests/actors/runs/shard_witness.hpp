#pragma once

#include <mailgrad/tests/actors/runs/run_checks.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace mailgrad::testing {

/// Sees all messages that one shard receives and sends. It keeps its own account by the definitions of the
/// policies, and expects the shard to agree with it. It knows async, ssp:S, sync and switches between them.
class shard_witness {
public:
  shard_witness(std::vector<std::string> policies, std::uint32_t workers)
      : policies_(std::move(policies)), notes_(workers), present_(workers, true) {}

  /// Checks a gradient that the shard receives. At a barrier, a version is made of one gradient of each
  /// worker, all computed from the version before; otherwise each gradient makes its own version.
  void hears(const push_gradient& x) {
    exchange_notes& with = notes_[x.header.id.worker.value];
    ASSERT_FALSE(with.versions_read.empty()) << "worker " << x.header.id.worker.value << " has read nothing";
    EXPECT_EQ(x.header.version_read.value, with.versions_read.back())
        << "worker " << x.header.id.worker.value;
    EXPECT_EQ(x.header.epoch.value, epoch_) << "a gradient of another policy came through the fence";
    with.steps_pushed.push_back(x.header.id.step.value);
    if (!at_barrier()) {
      ++version_;
      return;
    }
    EXPECT_EQ(x.header.version_read.value, version_)
        << "a barrier lets in worker " << x.header.id.worker.value << " from another round";
    EXPECT_EQ(std::ranges::count(round_, x.header.id.worker.value), 0) << "twice in a round";
    round_.push_back(x.header.id.worker.value);
    close_round_if_complete();
  }

  void hears(const worker_left& x) {
    present_[x.worker.value] = false;
    close_round_if_complete();
  }

  void says(rank to, const shard_weights& x) {
    exchange_notes& with = notes_[to.value];
    EXPECT_EQ(x.header.epoch.value, epoch_);
    EXPECT_EQ(x.header.version.value, version_) << "not every gradient made its share of one version";
    if (at_barrier()) {
      EXPECT_EQ(std::ranges::count(round_, to.value), 0) << "let go before its barrier opened";
    }
    if (policy().starts_with("ssp:")) {
      EXPECT_LE(lead_of(to), std::stoul(policy().substr(4))) << "what it reads lacks steps of the slowest";
    }
    with.versions_read.push_back(x.header.version.value);
    with.epochs_read.push_back(x.header.epoch.value);
  }

  /// A switch of policy closes a batch that is not complete.
  void says(const policy_switched& x) {
    if (!round_.empty()) close_round();
    epoch_ = x.epoch.value;
  }

  void says(const shard_report& x) const {
    EXPECT_EQ(x.version.value, version_);
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
  /// How many steps a worker is ahead of the slowest worker that has not left.
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
  std::vector<std::uint32_t> round_;  ///< ranks of the workers whose gradients wait at the barrier
  std::uint64_t version_ = 0;
  std::uint64_t epoch_ = 0;
};

} // namespace mailgrad::testing
