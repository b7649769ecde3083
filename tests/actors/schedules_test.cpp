#include <mailgrad/tests/actors/run_checks.hpp>
#include <mailgrad/tests/support/deterministic_test.hpp>

#include <mailgrad/demos/own_policy.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>

// Whole runs, under every policy and with switches, in thousands of orders of delivery each: whatever must
// hold in any of them is checked in all.

namespace mailgrad {
namespace {

using testing::assembled_run;
using testing::assembly;
using testing::expect_balanced;

#ifdef __SANITIZE_THREAD__
constexpr std::uint64_t schedules = 20; // on one thread there is little to find
#else
constexpr std::uint64_t schedules = 2500; // for each of at least four tests of every policy
#endif

class Schedules : public ::testing::TestWithParam<const char*> {
protected:
  static std::string policy_text() { return GetParam(); }
  static bool switches() { return policy_text().find('@') != std::string::npos; }
  /// Whether the policy may discard a gradient though nobody died.
  static bool drops() {
    for (const char* name : {"backup", "k-batch-sync", "rennala", "ringmaster"})
      if (policy_text().find(name) != std::string::npos) return true;
    return false;
  }

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

  testing::deterministic_system system_;
  const std::shared_ptr<const data_split> data_ = testing::small_data();
  const std::shared_ptr<testing::manual_time> time_ = std::make_shared<testing::manual_time>();
};

TEST_P(Schedules, EndOnceWithABalancedLedgerAndEveryBatchTrained) {
  for (std::uint64_t seed = 0; seed < schedules; ++seed) {
    SCOPED_TRACE("schedule " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const assembled_run run(system_.actors(), three_workers_two_shards(), data_, time_);
    deliver(random);
    ASSERT_EQ(run.times_ended(), 1U);
    EXPECT_EQ(run.outcome().how, run_outcome::ending::completed);
    expect_balanced(run);
    const training_report report = report_of(run.outcome(), run.written());
    EXPECT_EQ(report.ledger.produced, 12U);
    EXPECT_EQ(report.ledger.lost, 0U);
    if (!drops()) {
      EXPECT_EQ(report.ledger.discarded_in_all(), 0U);
    }
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
      for (std::uint32_t r = 0; r < a.workers; ++r)
        testing::expect_each_step_once(run.outcome().shards[s].workers[r], run.notes(r, s));
    if (HasFailure()) return;
  }
}

TEST_P(Schedules, ConserveStaleness) {
  if (policy_text() != "async") GTEST_SKIP() << "there workers wait, or several gradients make one version";
  assembly a = three_workers_two_shards();
  a.overhear = true;
  for (std::uint64_t seed = 0; seed < schedules; ++seed) {
    SCOPED_TRACE("schedule " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const assembled_run run(system_.actors(), a, data_, time_);
    deliver(random);
    ASSERT_EQ(run.times_ended(), 1U);
    for (std::uint32_t s = 0; s < a.shards; ++s)
      testing::expect_staleness_conserved(run.outcome().shards[s], run.notes_of_shard(s));
    if (HasFailure()) return;
  }
}

TEST_P(Schedules, MakeTheSameWeightsInEveryOrderIfWorkersKeepInStep) {
  if (policy_text() != "sync") GTEST_SKIP() << "the weights depend on the order";
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
    expect_balanced(run);
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
    const gradient_ledger l = report_of(outcome, run.written()).ledger;
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
    const gradient_ledger l = report_of(run.outcome(), run.written()).ledger;
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
    expect_balanced(run);
    const gradient_ledger l = report_of(run.outcome(), run.written()).ledger;
    EXPECT_EQ(l.lost, 0U) << "gradients that were begun are taken";
    if (!had_ended && l.produced < 12) {
      EXPECT_EQ(run.outcome().how, run_outcome::ending::stopped);
    }
    if (HasFailure()) return;
  }
}

/// Shards whose policy wants them to agree took the same gradients into the same versions.
TEST_P(Schedules, MakeTheSameBatchesOnEveryShardWherePoliciesWantIt) {
  if (switches() || !make_policy(policy_text(), 3)->shards_agree())
    GTEST_SKIP() << "each shard goes its own way";
  const std::size_t length = length_of_a_run();
  for (std::uint64_t seed = 0; seed < schedules; ++seed) {
    SCOPED_TRACE("schedule " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const assembled_run run(system_.actors(), three_workers_two_shards(), data_, time_);
    if (seed % 2 == 1) {
      deliver(random, random() % length);
      kill(run.devices[seed % 3]);
    }
    deliver(random);
    ASSERT_EQ(run.times_ended(), 1U);
    const std::vector<shard_report>& shards = run.outcome().shards;
    EXPECT_EQ(shards[0].version, shards[1].version);
    for (std::uint32_t r = 0; r < 3; ++r) {
      EXPECT_EQ(shards[0].workers[r].ledger, shards[1].workers[r].ledger) << "worker " << r;
      EXPECT_EQ(shards[0].workers[r].gaps.buckets(), shards[1].workers[r].gaps.buckets()) << "worker " << r;
    }
    if (HasFailure()) return;
  }
}

/// Whoever is given weights is at most the bound ahead of those who still take part, on every shard.
TEST_P(Schedules, KeepTheBoundOfAStaleSynchronousPolicy) {
  const std::uint64_t bound = policy_text() == "ssp:1" ? 1 : 2;
  if (policy_text() != "ssp:1" && policy_text() != "dssp:0,2") GTEST_SKIP() << "it has no bound";
  std::uint64_t largest = 0;
  for (std::uint64_t seed = 0; seed < schedules; ++seed) {
    SCOPED_TRACE("schedule " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const assembled_run* running = nullptr;
    assembly a = three_workers_two_shards();
    a.overhear = true;
    a.on_weights = [&](std::uint32_t worker, std::uint32_t shard) {
      const std::size_t steps = running->notes(worker, shard).steps_pushed.size();
      for (std::uint32_t other = 0; other < 3; ++other) {
        const testing::exchange_notes& notes = running->notes(other, shard);
        if (notes.left || notes.steps_pushed.size() >= steps) continue;
        largest = std::max<std::uint64_t>(largest, steps - notes.steps_pushed.size());
      }
    };
    const assembled_run run(system_.actors(), a, data_, time_);
    running = &run;
    deliver(random);
    ASSERT_EQ(run.times_ended(), 1U);
    ASSERT_LE(largest, bound);
  }
  EXPECT_EQ(largest, bound) << "the schedules should have tried it";
}

TEST_P(Schedules, SwitchOnceAtEachFenceAndStartAnewFromOneVersion) {
  if (!switches()) GTEST_SKIP() << "one policy";
  assembly a = three_workers_two_shards();
  a.overhear = true;
  const std::size_t planned = parse_policy_schedule(a.policy, a.workers).size() - 1;
  for (std::uint64_t seed = 0; seed < schedules; ++seed) {
    SCOPED_TRACE("schedule " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const assembled_run run(system_.actors(), a, data_, time_);
    deliver(random);
    ASSERT_EQ(run.times_ended(), 1U);
    const std::vector<policy_switch>& done = run.outcome().switches;
    ASSERT_EQ(done.size(), planned);
    for (std::size_t i = 1; i < done.size(); ++i) {
      EXPECT_EQ(done[i].from, done[i - 1].to);
      EXPECT_GE(done[i].step, done[i - 1].step);
    }
    for (std::uint32_t s = 0; s < a.shards; ++s)
      testing::expect_epochs_begin_at_one_version(run.notes_of_shard(s));
    if (HasFailure()) return;
  }
}

TEST_P(Schedules, TakeRequestsToSwitchAtAnyMomentWhoeverDies) {
  const std::size_t length = length_of_a_run();
  std::size_t switched = 0;
  for (std::uint64_t seed = 0; seed < schedules; ++seed) {
    SCOPED_TRACE("schedule " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const assembled_run run(system_.actors(), three_workers_two_shards(), data_, time_);
    deliver(random, random() % length);
    send_anonymously(run.coordinator_actor, request_switch{"ssp:1", "by hand"});
    deliver(random, random() % (length / 2));
    if (seed % 3 == 0) kill(run.devices[random() % 3]);
    if (seed % 5 == 0) send_anonymously(run.coordinator_actor, request_switch{"backup:1", "by hand again"});
    if (seed % 7 == 0) send_anonymously(run.coordinator_actor, stop_training{"enough"});
    deliver(random);
    ASSERT_EQ(run.times_ended(), 1U) << "somebody waits";
    expect_balanced(run);
    switched += run.outcome().switches.size();
    if (HasFailure()) return;
  }
  EXPECT_GT(switched, schedules / 4) << "most requests come in time";
}

/// The same, once Mailgrad knows the demo's policy.
const char* with_own_policies(const char* policy) {
  own_policy<fair_turns>("1");
  return policy;
}

INSTANTIATE_TEST_SUITE_P(EveryPolicy, Schedules,
                         ::testing::Values("async", "sync", "ssp:1", "dssp:0,2", "backup:1", "k-async:2",
                                           "k-batch-async:2", "k-batch-sync:2", "rennala:3", "ringmaster:2",
                                           "async, sync@4, ssp:1@8",
                                           "sync, backup:1@3, k-async:2@7, async@10",
                                           "sync, hogwild@4, async@8", with_own_policies("fair-turns:1"),
                                           with_own_policies("fair-turns:1, async@5")),
                         [](const auto& policy) { return testing::test_name(policy.param); });

} // namespace
} // namespace mailgrad
