#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/tests/actors/runs/drawn_runs.hpp>
#include <mailgrad/tests/actors/runs/ordered_policies.hpp>
#include <mailgrad/tests/actors/runs/run_checks.hpp>

#include <mailgrad/demos/custom_policy.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Whole runs, under every policy and with switches, in thousands of orders of delivery each: whatever must
// hold in any of them is checked in all.

namespace mailgrad {
using messaging::kill, messaging::send_anonymously;

namespace {

using testing::assembled_run;
using testing::assembly;
using testing::drawn_order;
using testing::drawn_orders;
using testing::expect_balanced;

constexpr std::uint64_t orders =
    500; // for each of at least four tests of every policy; scripts/endurance tries 700

class Schedules : public testing::DrawnRuns, public ::testing::WithParamInterface<const char*> {
protected:
  static std::string policy_text() { return GetParam(); }
  /// Whether the policy may discard a gradient though nobody died.
  static bool drops() {
    for (const char* name : {"backup", "k-batch-sync", "rennala", "ringmaster", "malenia"})
      if (policy_text().find(name) != std::string::npos) return true;
    return false;
  }

  static assembly three_workers_two_shards() {
    assembly a;
    a.policy = GetParam();
    return a;
  }

  /// A run that nobody disturbs takes this many messages; a disturbance comes at one of them.
  std::size_t length_of_a_run() {
    drawn_order order(0);
    const assembled_run run = assemble(three_workers_two_shards());
    return deliver(order);
  }
};

TEST_P(Schedules, EndOnceWithABalancedLedgerAndEveryBatchTrained) {
  for (drawn_order& order : drawn_orders(orders)) {
    const assembled_run run = assemble(three_workers_two_shards());
    deliver(order);
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
  }
}

TEST_P(Schedules, TakeNoGradientTwiceAndNoneOutOfOrder) {
  assembly a = three_workers_two_shards();
  a.overhear = true;
  for (drawn_order& order : drawn_orders(orders)) {
    const assembled_run run = assemble(a);
    deliver(order);
    ASSERT_EQ(run.times_ended(), 1U);
    for (std::uint32_t s = 0; s < a.shards; ++s)
      for (std::uint32_t r = 0; r < a.workers; ++r)
        testing::expect_each_step_once(run.outcome().shards[s].workers[r], run.notes(r, s));
  }
}

/// Of policies under which nobody waits, and each gradient makes a version.
class SchedulesWithoutWaits : public Schedules {};

TEST_P(SchedulesWithoutWaits, ConserveStaleness) {
  assembly a = three_workers_two_shards();
  a.overhear = true;
  for (drawn_order& order : drawn_orders(orders)) {
    const assembled_run run = assemble(a);
    deliver(order);
    ASSERT_EQ(run.times_ended(), 1U);
    for (std::uint32_t s = 0; s < a.shards; ++s)
      testing::expect_staleness_conserved(run.outcome().shards[s], run.notes_of_shard(s));
  }
}

/// Of policies under which all workers keep in step.
class SchedulesInStep : public Schedules {};

TEST_P(SchedulesInStep, MakeTheSameWeightsInEveryOrder) {
  assembly a = three_workers_two_shards();
  a.batches = 11; // the last round lacks a worker
  std::optional<std::vector<float>> first;
  for (drawn_order& order : drawn_orders(orders)) {
    const assembled_run run = assemble(a);
    deliver(order);
    ASSERT_EQ(run.times_ended(), 1U);
    for (const shard_report& s : run.outcome().shards) {
      EXPECT_EQ(s.version.value, 4U);
      for (std::uint32_t r = 0; r < a.workers; ++r) {
        const std::uint64_t dealt = r < 2 ? 4 : 3;
        EXPECT_EQ(s.workers[r].ledger, (gradient_ledger{dealt, 0, dealt, {}, 0}));
        EXPECT_EQ(s.workers[r].gaps.max(), 0U);
      }
    }
    const std::vector<float> weights = run.weights();
    if (!first) first = weights;
    ASSERT_EQ(weights, *first);
  }
}

TEST_P(Schedules, EndWithABalancedLedgerWhateverWorkersDie) {
  const std::size_t length = length_of_a_run();
  for (drawn_order& order : drawn_orders(orders)) {
    const assembled_run run = assemble(three_workers_two_shards());
    const std::uint64_t deaths = 1 + order.below(3);
    for (std::uint64_t i = 0; i < deaths; ++i) {
      deliver(order, order.below(length / 2));
      kill(run.devices[order.below(3)]);
    }
    deliver(order);
    ASSERT_EQ(run.times_ended(), 1U) << "somebody waits for the dead";
    expect_balanced(run);
  }
}

TEST_P(Schedules, LeaveNoBatchUntrainedButThoseOfTheDead) {
  const std::size_t length = length_of_a_run();
  for (drawn_order& order : drawn_orders(orders)) {
    const assembled_run run = assemble(three_workers_two_shards());
    deliver(order, order.below(length));
    kill(run.devices[order.seed() % 3]);
    deliver(order);
    ASSERT_EQ(run.times_ended(), 1U);
    const run_outcome& outcome = run.outcome();
    if (!outcome.lost[order.seed() % 3]) continue; // it had finished
    const gradient_ledger l = report_of(outcome, run.written()).ledger;
    EXPECT_GE(l.produced + 2, 12U) << "a worker holds a batch and the next at most";
  }
}

TEST_P(Schedules, EndWhenAShardOrTheFeederDies) {
  const std::size_t length = length_of_a_run();
  for (drawn_order& order : drawn_orders(orders)) {
    const assembled_run run = assemble(three_workers_two_shards());
    deliver(order, order.below(length));
    const std::uint64_t victim = order.below(3);
    kill(victim < 2 ? run.shards[victim] : run.feeder_actor);
    deliver(order);
    ASSERT_EQ(run.times_ended(), 1U) << "somebody waits for the dead";
    const gradient_ledger l = report_of(run.outcome(), run.written()).ledger;
    EXPECT_TRUE(l.balances()) << to_string(l);
  }
}

TEST_P(Schedules, EndInGoodOrderWheneverSomebodyStopsThem) {
  const std::size_t length = length_of_a_run();
  for (drawn_order& order : drawn_orders(orders)) {
    const assembled_run run = assemble(three_workers_two_shards());
    deliver(order, order.below(length));
    const bool had_ended = run.times_ended() == 1;
    send_anonymously(run.coordinator_actor, stop_training{"by hand"});
    deliver(order);
    ASSERT_EQ(run.times_ended(), 1U);
    expect_balanced(run);
    const gradient_ledger l = report_of(run.outcome(), run.written()).ledger;
    EXPECT_EQ(l.lost, 0U) << "gradients that were begun are taken";
    if (!had_ended && l.produced < 12) {
      EXPECT_EQ(run.outcome().how, run_outcome::ending::stopped);
    }
  }
}

/// Of policies under which shards agree, which then take the same gradients into the same versions.
class SchedulesOfAgreeingShards : public Schedules {};

TEST_P(SchedulesOfAgreeingShards, MakeTheSameBatchesOnEveryShard) {
  const std::size_t length = length_of_a_run();
  for (drawn_order& order : drawn_orders(orders)) {
    const assembled_run run = assemble(three_workers_two_shards());
    if (order.seed() % 2 == 1) {
      deliver(order, order.below(length));
      kill(run.devices[order.seed() % 3]);
    }
    deliver(order);
    ASSERT_EQ(run.times_ended(), 1U);
    const std::vector<shard_report>& shards = run.outcome().shards;
    EXPECT_EQ(shards[0].version, shards[1].version);
    for (std::uint32_t r = 0; r < 3; ++r) {
      EXPECT_EQ(shards[0].workers[r].ledger, shards[1].workers[r].ledger) << "worker " << r;
      EXPECT_EQ(shards[0].workers[r].gaps.buckets(), shards[1].workers[r].gaps.buckets()) << "worker " << r;
    }
  }
}

/// Of policies that bound how far one worker may be ahead of another.
class SchedulesWithABound : public Schedules {};

/// A worker that is given weights is at most the bound ahead of those who still take part, on every shard.
/// Few orders come to the bound, so more are tried.
TEST_P(SchedulesWithABound, KeepIt) {
  const std::uint64_t bound = policy_text() == "ssp:1" ? 1 : 2;
  std::uint64_t largest = 0;
  for (drawn_order& order : drawn_orders(5 * orders)) {
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
    const assembled_run run = assemble(a);
    running = &run;
    deliver(order);
    ASSERT_EQ(run.times_ended(), 1U);
    ASSERT_LE(largest, bound);
  }
  EXPECT_EQ(largest, bound) << "the orders should have tried it";
}

/// Of several policies, one after the other.
class SchedulesWithSwitches : public Schedules {};

TEST_P(SchedulesWithSwitches, SwitchOnceAtEachFenceAndStartAnewFromOneVersion) {
  assembly a = three_workers_two_shards();
  a.overhear = true;
  const std::size_t planned = parse_policy_schedule(a.policy, a.workers).size() - 1;
  for (drawn_order& order : drawn_orders(orders)) {
    const assembled_run run = assemble(a);
    deliver(order);
    ASSERT_EQ(run.times_ended(), 1U);
    const std::vector<policy_switch>& done = run.outcome().switches;
    ASSERT_EQ(done.size(), planned);
    for (std::size_t i = 1; i < done.size(); ++i) {
      EXPECT_EQ(done[i].from, done[i - 1].to);
      EXPECT_GE(done[i].step, done[i - 1].step);
    }
    for (std::uint32_t s = 0; s < a.shards; ++s)
      testing::expect_epochs_begin_at_one_version(run.notes_of_shard(s));
  }
}

TEST_P(Schedules, TakeRequestsToSwitchAtAnyMomentWhoeverDies) {
  const std::size_t length = length_of_a_run();
  const drawn_orders tried(orders);
  std::size_t switched = 0;
  for (drawn_order& order : tried) {
    const assembled_run run = assemble(three_workers_two_shards());
    deliver(order, order.below(length));
    send_anonymously(run.coordinator_actor, request_switch{"ssp:1", "by hand"});
    deliver(order, order.below(length / 2));
    if (order.seed() % 3 == 0) kill(run.devices[order.below(3)]);
    if (order.seed() % 5 == 0)
      send_anonymously(run.coordinator_actor, request_switch{"backup:1", "by hand again"});
    if (order.seed() % 7 == 0) send_anonymously(run.coordinator_actor, stop_training{"enough"});
    deliver(order);
    ASSERT_EQ(run.times_ended(), 1U) << "somebody waits";
    expect_balanced(run);
    switched += run.outcome().switches.size();
  }
  EXPECT_GT(switched, tried.count() / 4) << "most requests come in time";
}

std::string name_of_policy(const ::testing::TestParamInfo<const char*>& policy) {
  return testing::test_name(policy.param);
}

/// All that one may choose, those of the demo among them.
std::vector<const char*> policies() {
  custom_policy<fair_turns>("1");
  std::vector<const char*> all(testing::ordered_policies.begin(), testing::ordered_policies.end());
  all.insert(all.end(), {"sync, hogwild@4, async@8", "fair-turns:1", "fair-turns:1, async@5"});
  return all;
}

bool switches(std::string_view policy) { return policy.find('@') != std::string_view::npos; }
bool lets_shards_agree(std::string_view policy) {
  return !switches(policy) && make_policy(std::string(policy), assembly{}.workers)->shards_agree();
}

std::vector<const char*> policies_of_which(bool (*holds)(std::string_view)) {
  std::vector<const char*> all = policies();
  std::erase_if(all, [&](const char* policy) { return !holds(policy); });
  return all;
}

INSTANTIATE_TEST_SUITE_P(EveryPolicy, Schedules, ::testing::ValuesIn(policies()), name_of_policy);
INSTANTIATE_TEST_SUITE_P(Async, SchedulesWithoutWaits, ::testing::Values("async"), name_of_policy);
INSTANTIATE_TEST_SUITE_P(Sync, SchedulesInStep, ::testing::Values("sync"), name_of_policy);
INSTANTIATE_TEST_SUITE_P(StaleSynchronous, SchedulesWithABound, ::testing::Values("ssp:1", "dssp:0,2"),
                         name_of_policy);
INSTANTIATE_TEST_SUITE_P(EveryPolicy, SchedulesOfAgreeingShards,
                         ::testing::ValuesIn(policies_of_which(lets_shards_agree)), name_of_policy);
INSTANTIATE_TEST_SUITE_P(EveryPolicy, SchedulesWithSwitches, ::testing::ValuesIn(policies_of_which(switches)),
                         name_of_policy);

} // namespace
} // namespace mailgrad
