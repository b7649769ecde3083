#include <mailgrad/tests/actors/assembled_run.hpp>
#include <mailgrad/tests/support/deterministic_test.hpp>

#include <mailgrad/actors/run_books.hpp>

#include <gtest/gtest.h>

#include <numeric>
#include <optional>
#include <random>

// Whole runs in a thousand orders of delivery each: whatever must hold in any of them is checked in all.

namespace mailgrad {
namespace {

using testing::assembled_run;
using testing::assembly;

#ifdef __SANITIZE_THREAD__
constexpr std::uint64_t schedules = 20; // on one thread there is little to find
#else
constexpr std::uint64_t schedules = 1000;
#endif

class Schedules : public ::testing::TestWithParam<const char*> {
protected:
  static assembly three_workers_two_shards() {
    assembly a;
    a.policy = GetParam();
    return a;
  }

  /// Delivers messages in an order drawn from `random` until none is left, at most `most` of them.
  std::size_t deliver(std::mt19937_64& random, std::size_t most = 100'000) {
    std::size_t delivered = 0;
    while (delivered < most && system_.step_any(random)) {
      ++delivered;
      time_->advance(instant{static_cast<instant::rep>(random() % 1000)});
    }
    return delivered;
  }

  /// A run that nobody disturbs takes this many messages; a disturbance comes at one of them.
  std::size_t length_of_a_run() {
    std::mt19937_64 random(0);
    const assembled_run run(system_.actors(), three_workers_two_shards(), data_, time_);
    return deliver(random);
  }

  static void expect_balanced(const run_outcome& outcome) {
    const gradient_ledger l = report_of(outcome).ledger;
    EXPECT_TRUE(l.balances()) << to_string(l);
    for (const shard_report& s : outcome.shards)
      for (const worker_account& account : s.workers) {
        EXPECT_TRUE(account.ledger.balances()) << to_string(account.ledger);
        EXPECT_EQ(account.ledger.applied + account.ledger.merged, account.gaps.total());
      }
  }

  testing::deterministic_system system_;
  const std::shared_ptr<const data_split> data_ = testing::small_data();
  const std::shared_ptr<testing::manual_time> time_ = std::make_shared<testing::manual_time>();
};

/// Sum over the gradients of one account of (gap + 1): how many versions they moved their worker on.
std::uint64_t versions_passed(const worker_account& account) {
  std::uint64_t sum = 0;
  for (const auto& [gap, count] : account.gaps.buckets()) sum += (gap + 1) * count;
  return sum;
}

TEST_P(Schedules, EndOnceWithABalancedLedgerAndEveryBatchTrained) {
  for (std::uint64_t seed = 0; seed < schedules; ++seed) {
    SCOPED_TRACE("schedule " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const assembled_run run(system_.actors(), three_workers_two_shards(), data_, time_);
    deliver(random);
    ASSERT_EQ(run.times_ended(), 1U);
    EXPECT_EQ(run.outcome().how, run_outcome::ending::completed);
    expect_balanced(run.outcome());
    const training_report report = report_of(run.outcome());
    EXPECT_EQ(report.ledger.produced, 12U);
    EXPECT_EQ(report.ledger.applied + report.ledger.merged, 12U);
    EXPECT_EQ(report.samples, 48U);
    if (HasFailure()) return;
  }
}

TEST_P(Schedules, TakeNoGradientTwiceAndNoneOutOfOrder) {
  assembly a = three_workers_two_shards();
  a.overhear = true;
  for (std::uint64_t seed = 0; seed < schedules; ++seed) {
    SCOPED_TRACE("schedule " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const assembled_run run(system_.actors(), a, data_, time_);
    deliver(random);
    ASSERT_EQ(run.times_ended(), 1U);
    for (std::uint32_t s = 0; s < a.shards; ++s)
      for (std::uint32_t r = 0; r < a.workers; ++r) {
        const worker_account& account = run.outcome().shards[s].workers[r];
        std::vector<std::uint64_t> in_order(account.last_step);
        std::iota(in_order.begin(), in_order.end(), 1U);
        EXPECT_EQ(run.notes(r, s).steps_pushed, in_order);
        EXPECT_EQ(account.ledger.produced, in_order.size());
      }
    if (HasFailure()) return;
  }
}

/// Every worker is always busy, so each version passes it by (a gap) or is its own: summed over workers, gaps
/// and the ages of what they hold at the end are (M - 1) U, less what they missed before their first read.
TEST_P(Schedules, ConserveStaleness) {
  if (std::string(GetParam()) == "sync") GTEST_SKIP() << "a batch makes one version of several gradients";
  assembly a = three_workers_two_shards();
  a.overhear = true;
  for (std::uint64_t seed = 0; seed < schedules; ++seed) {
    SCOPED_TRACE("schedule " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const assembled_run run(system_.actors(), a, data_, time_);
    deliver(random);
    ASSERT_EQ(run.times_ended(), 1U);
    for (std::uint32_t s = 0; s < a.shards; ++s) {
      const shard_report& shard = run.outcome().shards[s];
      std::uint64_t gaps = 0;
      std::uint64_t ages_at_the_end = 0;
      std::uint64_t missed_at_the_start = 0;
      for (std::uint32_t r = 0; r < a.workers; ++r) {
        const std::vector<std::uint64_t>& read = run.notes(r, s).versions_read;
        EXPECT_EQ(read.back() - read.front(), versions_passed(shard.workers[r])) << "worker " << r;
        gaps += versions_passed(shard.workers[r]) - shard.workers[r].gaps.total();
        ages_at_the_end += shard.version - read.back();
        missed_at_the_start += read.front();
      }
      EXPECT_EQ(gaps + ages_at_the_end, (a.workers - 1) * shard.version - missed_at_the_start);
    }
    if (HasFailure()) return;
  }
}

TEST_P(Schedules, MakeTheSameWeightsInEveryOrderIfWorkersKeepInStep) {
  if (std::string(GetParam()) != "sync") GTEST_SKIP() << "asynchronous weights depend on the order";
  assembly a = three_workers_two_shards();
  a.batches = 11; // the last round lacks a worker
  std::optional<std::vector<float>> first;
  for (std::uint64_t seed = 0; seed < schedules; ++seed) {
    SCOPED_TRACE("schedule " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const assembled_run run(system_.actors(), a, data_, time_);
    deliver(random);
    ASSERT_EQ(run.times_ended(), 1U);
    for (const shard_report& s : run.outcome().shards) {
      EXPECT_EQ(s.version, 4U);
      for (std::uint32_t r = 0; r < a.workers; ++r) {
        const std::uint64_t dealt = r < 2 ? 4 : 3;
        EXPECT_EQ(s.workers[r].ledger, (gradient_ledger{dealt, 0, dealt, {}, 0}));
        EXPECT_EQ(s.workers[r].gaps.max(), 0U);
      }
    }
    const std::vector<float> weights = run.weights();
    if (!first) first = weights;
    ASSERT_EQ(weights, *first);
    if (HasFailure()) return;
  }
}

TEST_P(Schedules, EndWithABalancedLedgerWhateverWorkersDie) {
  const std::size_t length = length_of_a_run();
  for (std::uint64_t seed = 0; seed < schedules; ++seed) {
    SCOPED_TRACE("schedule " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const assembled_run run(system_.actors(), three_workers_two_shards(), data_, time_);
    const std::uint64_t deaths = 1 + random() % 3;
    for (std::uint64_t i = 0; i < deaths; ++i) {
      deliver(random, random() % (length / 2));
      kill(run.devices[random() % 3]);
    }
    deliver(random);
    ASSERT_EQ(run.times_ended(), 1U) << "somebody waits for the dead";
    expect_balanced(run.outcome());
    if (HasFailure()) return;
  }
}

TEST_P(Schedules, LeaveNoBatchUntrainedButThoseOfTheDead) {
  const std::size_t length = length_of_a_run();
  for (std::uint64_t seed = 0; seed < schedules; ++seed) {
    SCOPED_TRACE("schedule " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const assembled_run run(system_.actors(), three_workers_two_shards(), data_, time_);
    deliver(random, random() % length);
    kill(run.devices[seed % 3]);
    deliver(random);
    ASSERT_EQ(run.times_ended(), 1U);
    const run_outcome& outcome = run.outcome();
    if (!outcome.lost[seed % 3]) continue; // it had finished
    const gradient_ledger l = report_of(outcome).ledger;
    EXPECT_GE(l.produced + 2, 12U) << "a worker holds a batch and the next at most";
    if (HasFailure()) return;
  }
}

TEST_P(Schedules, EndWhenAShardOrTheFeederDies) {
  const std::size_t length = length_of_a_run();
  for (std::uint64_t seed = 0; seed < schedules; ++seed) {
    SCOPED_TRACE("schedule " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const assembled_run run(system_.actors(), three_workers_two_shards(), data_, time_);
    deliver(random, random() % length);
    const std::uint64_t victim = random() % 3;
    kill(victim < 2 ? run.shards[victim] : run.feeder_actor);
    deliver(random);
    ASSERT_EQ(run.times_ended(), 1U) << "somebody waits for the dead";
    const gradient_ledger l = report_of(run.outcome()).ledger;
    EXPECT_TRUE(l.balances()) << to_string(l);
    if (HasFailure()) return;
  }
}

TEST_P(Schedules, EndInGoodOrderWheneverSomebodyStopsThem) {
  const std::size_t length = length_of_a_run();
  for (std::uint64_t seed = 0; seed < schedules; ++seed) {
    SCOPED_TRACE("schedule " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const assembled_run run(system_.actors(), three_workers_two_shards(), data_, time_);
    deliver(random, random() % length);
    const bool had_ended = run.times_ended() == 1;
    send_anonymously(run.coordinator_actor, stop_training{"by hand"});
    deliver(random);
    ASSERT_EQ(run.times_ended(), 1U);
    expect_balanced(run.outcome());
    const gradient_ledger l = report_of(run.outcome()).ledger;
    EXPECT_EQ(l.produced, l.applied + l.merged) << "gradients that were begun are taken";
    if (!had_ended && l.produced < 12) {
      EXPECT_EQ(run.outcome().how, run_outcome::ending::stopped);
    }
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(EveryPolicy, Schedules, ::testing::Values("async", "sync"),
                         [](const auto& policy) { return std::string(policy.param); });

} // namespace
} // namespace mailgrad
