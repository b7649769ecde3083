#pragma once

#include <mailgrad/tests/actors/runs/assembled_run.hpp>

#include <mailgrad/engine/account/report_of_run.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <numeric>
#include <vector>

// Checks of what must hold at the end of any run, whatever the order of its messages.

namespace mailgrad::testing {

inline void expect_balanced(const assembled_run& run) {
  const run_outcome& outcome = run.outcome();
  const audited_ledger audited = audit(outcome, run.written());
  EXPECT_TRUE(audited.ledger.balances()) << to_string(audited.ledger);
  EXPECT_THAT(audited.contradictions, ::testing::IsEmpty());
  for (const shard_report& s : outcome.shards)
    for (const worker_account& account : s.workers) {
      EXPECT_TRUE(account.ledger.balances()) << to_string(account.ledger);
      EXPECT_FALSE(account.ledger.discarded.contains("other epoch")) << "a fence let a gradient through";
      EXPECT_EQ(account.ledger.applied + account.ledger.merged, account.gaps.total());
      EXPECT_EQ(account.ledger.discarded_in_all(), account.discarded_gaps.total());
    }
}

/// How many gradients one shard has judged: applied, merged or discarded, or waiting in a batch.
inline std::uint64_t judged_by(const shard_report& s) {
  std::uint64_t judged = 0;
  for (const worker_account& account : s.workers) judged += account.ledger.produced - account.unjudged;
  return judged;
}

/// Expects that one shard got each step of one worker exactly once, and in order.
inline void expect_each_step_once(const worker_account& account, const exchange_notes& notes) {
  std::vector<std::uint64_t> in_order(account.last_step.value);
  std::iota(in_order.begin(), in_order.end(), 1U);
  EXPECT_EQ(notes.steps_pushed, in_order);
  EXPECT_EQ(account.ledger.produced, in_order.size());
}

/// The sum of (gap + 1) over the gradients of one account, which is how many versions their worker passed.
inline std::uint64_t versions_passed(const worker_account& account) {
  std::uint64_t sum = 0;
  for (const auto& [gap, count] : account.gaps.buckets()) sum += (gap + 1) * count;
  return sum;
}

/// Expects the staleness of a run with M workers and U updates to add up to (M - 1) U.
///
/// This holds if every worker is always busy and each gradient makes a version. For each worker, each of the
/// U versions is then its own, or it counts once: in a gap, in the age of the weights that the worker holds
/// at the end, or as missed before its first read. `notes` are those of this shard, by rank.
inline void expect_staleness_conserved(const shard_report& shard,
                                       const std::vector<const exchange_notes*>& notes) {
  std::uint64_t gaps = 0;
  std::uint64_t ages_at_the_end = 0;
  std::uint64_t missed_at_the_start = 0;
  for (std::size_t r = 0; r < notes.size(); ++r) {
    const std::vector<std::uint64_t>& read = notes[r]->versions_read;
    ASSERT_FALSE(read.empty());
    EXPECT_EQ(read.back() - read.front(), versions_passed(shard.workers[r])) << "worker " << r;
    gaps += versions_passed(shard.workers[r]) - shard.workers[r].gaps.total();
    ages_at_the_end += shard.version.value - read.back();
    missed_at_the_start += read.front();
  }
  EXPECT_EQ(gaps + ages_at_the_end, (notes.size() - 1) * shard.version.value - missed_at_the_start);
}

/// Expects that all workers begin each policy epoch with the same version. `notes` as above.
inline void expect_epochs_begin_at_one_version(const std::vector<const exchange_notes*>& notes) {
  std::map<std::uint64_t, std::uint64_t> first_versions; // by epoch; workers begin epoch 0 as they join
  for (const exchange_notes* worker : notes)
    for (std::size_t i = 0; i < worker->epochs_read.size(); ++i) {
      const std::uint64_t epoch = worker->epochs_read[i];
      if (epoch == 0 || (i > 0 && epoch == worker->epochs_read[i - 1])) continue;
      const std::uint64_t first = first_versions.try_emplace(epoch, worker->versions_read[i]).first->second;
      EXPECT_EQ(worker->versions_read[i], first) << "epoch " << epoch;
    }
}

} // namespace mailgrad::testing
