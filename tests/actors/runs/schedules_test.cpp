#include <mailgrad/actors/run/staleness_tracker.hpp>
#include <mailgrad/demos/custom_policy.hpp>
#include <mailgrad/tests/actors/runs/drawn_runs.hpp>

#include <bit>

// Whole runs in thousands of orders of delivery: whatever must hold in any of them is checked in all.

namespace mailgrad::testing {
namespace {

using messaging::kill, messaging::send_anonymously;
using ::testing::HasSubstr, ::testing::IsEmpty, ::testing::SizeIs;
using namespace std::chrono_literals;

// For each of at least four tests of every policy; scripts/endurance tries 700.
constexpr std::uint64_t orders = 500;

class Schedules : public DrawnRuns, public ::testing::WithParamInterface<const char*> {
protected:
  static assembly three_workers_two_shards(bool overhear = false) {
    return {.policy = GetParam(), .overhear = overhear};
  }
  /// A run that nobody disturbs takes this many messages; a disturbance comes at one of them.
  std::size_t length_of_a_run() { return length_of(three_workers_two_shards()); }
};

TEST_P(Schedules, EndOnceWithABalancedLedgerAndEveryBatchTrained) {
  in_orders(drawn_orders(orders), three_workers_two_shards(), [](const assembled_run& run) {
    expect_completed(run);
    const training_report report = report_of(run.outcome(), run.written());
    EXPECT_EQ(report.ledger.produced, 12U);
    EXPECT_EQ(report.ledger.lost, 0U);
    EXPECT_TRUE(may_discard(GetParam()) || report.ledger.discarded_in_all() == 0);
    EXPECT_EQ(report.samples, 48U);
  });
}

TEST_P(Schedules, TakeNoGradientTwiceAndNoneOutOfOrder) {
  in_orders(drawn_orders(orders), three_workers_two_shards(true), [](const assembled_run& run) {
    for (std::uint32_t s = 0; s < 2; ++s)
      for (std::uint32_t r = 0; r < 3; ++r)
        expect_each_step_once(run.outcome().shards[s].workers[r], run.notes(r, s));
  });
}

/// Of policies under which nobody waits, and each gradient makes a version.
class SchedulesWithoutWaits : public Schedules {};

TEST_P(SchedulesWithoutWaits, ConserveStaleness) {
  in_orders(drawn_orders(orders), three_workers_two_shards(true), [](const assembled_run& run) {
    for (std::uint32_t s = 0; s < 2; ++s)
      expect_staleness_conserved(run.outcome().shards[s], run.notes_of_shard(s));
  });
}

class SchedulesInStep : public Schedules {};

TEST_P(SchedulesInStep, MakeTheSameWeightsInEveryOrder) {
  assembly a = three_workers_two_shards();
  a.batches = 11; // the last round lacks a worker
  std::vector<float> first;
  in_orders(drawn_orders(orders), a, [&](const assembled_run& run) {
    for (const shard_report& s : run.outcome().shards) {
      EXPECT_EQ(s.version.value, 4U);
      for (std::uint32_t r = 0; r < a.workers; ++r) {
        const std::uint64_t dealt = r < 2 ? 4 : 3;
        EXPECT_EQ(s.workers[r].ledger, (gradient_ledger{dealt, 0, dealt, {}, 0}));
        EXPECT_EQ(s.workers[r].gaps.max(), 0U);
      }
    }
    if (first.empty()) first = run.weights();
    ASSERT_EQ(run.weights(), first);
  });
}

TEST_P(Schedules, EndWithABalancedLedgerWhateverWorkersDie) {
  const auto kill_some = [&, length = length_of_a_run()](const assembled_run& run, drawn_order& order) {
    const std::uint64_t deaths = 1 + order.below(3);
    for (std::uint64_t i = 0; i < deaths; ++i) {
      deliver(order, order.below(length / 2));
      kill(run.devices[order.below(3)]);
    }
  };
  in_orders(drawn_orders(orders), three_workers_two_shards(), kill_some, expect_balanced);
}

TEST_P(Schedules, LeaveNoBatchUntrainedButThoseOfTheDead) {
  std::uint64_t victim = 0;
  const auto kill_one = [&, length = length_of_a_run()](const assembled_run& run, drawn_order& order) {
    deliver(order, order.below(length));
    victim = order.seed() % 3;
    kill(run.devices[victim]);
  };
  in_orders(drawn_orders(orders), three_workers_two_shards(), kill_one, [&](const assembled_run& run) {
    if (!run.outcome().lost[victim]) return; // it had finished
    const gradient_ledger l = report_of(run.outcome(), run.written()).ledger;
    EXPECT_GE(l.produced + 2, 12U) << "a worker holds a batch and the next at most";
  });
}

TEST_P(Schedules, EndWhenAShardOrTheFeederDies) {
  const auto kill_one = [&, length = length_of_a_run()](const assembled_run& run, drawn_order& order) {
    deliver(order, order.below(length));
    const std::uint64_t victim = order.below(3);
    kill(victim < 2 ? run.shards[victim] : run.feeder_actor);
  };
  in_orders(drawn_orders(orders), three_workers_two_shards(), kill_one, [](const assembled_run& run) {
    const gradient_ledger l = report_of(run.outcome(), run.written()).ledger;
    EXPECT_TRUE(l.balances()) << to_string(l);
  });
}

TEST_P(Schedules, EndInGoodOrderWheneverSomebodyStopsThem) {
  bool had_ended = false;
  const auto stop = [&, length = length_of_a_run()](const assembled_run& run, drawn_order& order) {
    deliver(order, order.below(length));
    had_ended = run.times_ended() == 1;
    send_anonymously(run.coordinator_actor, stop_training{"by hand"});
  };
  in_orders(drawn_orders(orders), three_workers_two_shards(), stop, [&](const assembled_run& run) {
    expect_balanced(run);
    const gradient_ledger l = report_of(run.outcome(), run.written()).ledger;
    EXPECT_EQ(l.lost, 0U) << "gradients that were begun are taken";
    EXPECT_TRUE(had_ended || l.produced == 12 || run.outcome().how == run_outcome::ending::stopped);
  });
}

/// Of policies under which shards agree, which then take the same gradients into the same versions.
class SchedulesOfAgreeingShards : public Schedules {};

TEST_P(SchedulesOfAgreeingShards, MakeTheSameBatchesOnEveryShard) {
  const auto kill_one = [&, length = length_of_a_run()](const assembled_run& run, drawn_order& order) {
    if (order.seed() % 2 == 0) return;
    deliver(order, order.below(length));
    kill(run.devices[order.seed() % 3]);
  };
  in_orders(drawn_orders(orders), three_workers_two_shards(), kill_one, [](const assembled_run& run) {
    const std::vector<shard_report>& shards = run.outcome().shards;
    EXPECT_EQ(shards[0].version, shards[1].version);
    for (std::uint32_t r = 0; r < 3; ++r) {
      EXPECT_EQ(shards[0].workers[r].ledger, shards[1].workers[r].ledger) << "worker " << r;
      EXPECT_EQ(shards[0].workers[r].gaps.buckets(), shards[1].workers[r].gaps.buckets()) << "worker " << r;
    }
  });
}

/// Of policies that bound how far one worker may be ahead of another.
class SchedulesWithABound : public Schedules {};

/// A worker that is given weights is at most the bound ahead of those who still take part, on every shard.
/// Few orders come to the bound, so more are tried.
TEST_P(SchedulesWithABound, KeepIt) {
  const std::uint64_t bound = std::string_view(GetParam()) == "ssp:1" ? 1 : 2;
  std::uint64_t largest = 0;
  const assembled_run* running = nullptr;
  assembly a = three_workers_two_shards(true);
  a.on_weights = [&](std::uint32_t worker, std::uint32_t shard) {
    const std::size_t steps = running->notes(worker, shard).steps_pushed.size();
    for (std::uint32_t other = 0; other < 3; ++other) {
      const exchange_notes& notes = running->notes(other, shard);
      if (notes.left || notes.steps_pushed.size() >= steps) continue;
      largest = std::max<std::uint64_t>(largest, steps - notes.steps_pushed.size());
    }
  };
  in_orders(
      drawn_orders(5 * orders), a, [&](const assembled_run& run, drawn_order&) { running = &run; },
      [&](const assembled_run&) { ASSERT_LE(largest, bound); });
  EXPECT_EQ(largest, bound) << "the orders should have tried it";
}

class SchedulesWithSwitches : public Schedules {};

TEST_P(SchedulesWithSwitches, SwitchOnceAtEachFenceAndStartAnewFromOneVersion) {
  const assembly a = three_workers_two_shards(true);
  const std::size_t planned = parse_policy_schedule(a.policy, a.workers).size() - 1;
  in_orders(drawn_orders(orders), a, [&](const assembled_run& run) {
    const std::vector<policy_switch>& done = run.outcome().switches;
    ASSERT_EQ(done.size(), planned);
    for (std::size_t i = 1; i < done.size(); ++i) {
      EXPECT_EQ(done[i].from, done[i - 1].to);
      EXPECT_GE(done[i].step, done[i - 1].step);
    }
    for (std::uint32_t s = 0; s < a.shards; ++s) expect_epochs_begin_at_one_version(run.notes_of_shard(s));
  });
}

TEST_P(Schedules, TakeRequestsToSwitchAtAnyMomentWhoeverDies) {
  const drawn_orders tried(orders);
  std::size_t switched = 0;
  const auto request = [&, length = length_of_a_run()](const assembled_run& run, drawn_order& order) {
    deliver(order, order.below(length));
    send_anonymously(run.coordinator_actor, request_switch{"ssp:1", "by hand"});
    deliver(order, order.below(length / 2));
    if (order.seed() % 3 == 0) kill(run.devices[order.below(3)]);
    if (order.seed() % 5 == 0)
      send_anonymously(run.coordinator_actor, request_switch{"backup:1", "by hand again"});
    if (order.seed() % 7 == 0) send_anonymously(run.coordinator_actor, stop_training{"enough"});
  };
  in_orders(tried, three_workers_two_shards(), request, [&](const assembled_run& run) {
    expect_balanced(run);
    switched += run.outcome().switches.size();
  });
  EXPECT_GT(switched, tried.count() / 4) << "most requests come in time";
}

/// All that one may choose, those of the demo among them.
std::vector<const char*> policies() {
  custom_policy<fair_turns>("1");
  std::vector<const char*> all(ordered_policies.begin(), ordered_policies.end());
  all.insert(all.end(), {"sync, hogwild@4, async@8", "fair-turns:1", "fair-turns:1, async@5"});
  return all;
}

bool switches(std::string_view policy) { return policy.find('@') != std::string_view::npos; }
bool lets_shards_agree(std::string_view policy) {
  return !switches(policy) && make_policy(std::string(policy), assembly{}.workers)->shards_agree();
}

INSTANTIATE_TEST_SUITE_P(EveryPolicy, Schedules, ::testing::ValuesIn(policies()), name_of_policy);
INSTANTIATE_TEST_SUITE_P(Async, SchedulesWithoutWaits, ::testing::Values("async"), name_of_policy);
INSTANTIATE_TEST_SUITE_P(Sync, SchedulesInStep, ::testing::Values("sync"), name_of_policy);
INSTANTIATE_TEST_SUITE_P(StaleSynchronous, SchedulesWithABound, ::testing::Values("ssp:1", "dssp:0,2"),
                         name_of_policy);
INSTANTIATE_TEST_SUITE_P(EveryPolicy, SchedulesOfAgreeingShards,
                         ::testing::ValuesIn(policies_of_which(lets_shards_agree, policies())),
                         name_of_policy);
INSTANTIATE_TEST_SUITE_P(EveryPolicy, SchedulesWithSwitches,
                         ::testing::ValuesIn(policies_of_which(switches, policies())), name_of_policy);

// ---- a run that switches by a rule: from the notices of workers to the switch and its reason

class SignalsOfTheTracker : public DeterministicTest {
protected:
  void notice(std::uint64_t steps, double loss_sum, instant span, instant barrier) {
    tell(tracker_,
         worker_progress{
             {0}, steps, steps, std::bit_cast<std::uint64_t>(loss_sum), span.count(), barrier.count()});
  }
  caf::actor tracker_ = start<staleness_tracker>(staleness_tracker_options{time_, {}});
};

TEST_F(SignalsOfTheTracker, ComeOncePerWindowToWhomeverWatches) {
  notice(50, 50, 1s, 0s);
  auto watcher = ask<signals_observed>(tracker_, watch_signals{100});
  notice(60, 60, 1s, 250ms);
  EXPECT_THAT(watcher.heard<signals_observed>(), IsEmpty());
  staleness_histogram gaps;
  gaps.count(2, 10);
  tell(tracker_, staleness_observed{gaps});
  notice(60, 0, 1s, 750ms);
  ASSERT_THAT(watcher.heard<signals_observed>(), SizeIs(1));
  const run_signals s = watcher.heard<signals_observed>()[0].what;
  EXPECT_EQ(s.steps, 120U);
  EXPECT_DOUBLE_EQ(s.loss, 0.5);
  EXPECT_DOUBLE_EQ(s.staleness, 2);
  EXPECT_DOUBLE_EQ(s.barrier_share, 0.5);
  notice(100, 100, 1s, 0s);
  ASSERT_THAT(watcher.heard<signals_observed>(), SizeIs(2));
  EXPECT_DOUBLE_EQ(watcher.heard<signals_observed>()[1].what.barrier_share, 0) << "a new window";
}

class AutomaticPolicy : public DrawnRuns {
protected:
  /// The report of a run whose messages are delivered slowly enough for workers to report their progress,
  /// which they do by the clock.
  training_report report_of_slow_run(assembly a) {
    a.policy = "auto";
    const assembled_run run = assemble(a);
    drawn_order order(1);
    system_.deliver(order, deterministic_system::endless, [&] { time_->advance(instant{10ms}); });
    deliver_to_end(order, run);
    training_report r = report_of(run.outcome());
    EXPECT_EQ(r.ended, "completed");
    EXPECT_TRUE(r.ledger.balances());
    return r;
  }
};

// Workers in step whose messages come in any order wait for each other, as the virtual clock has it.
TEST_F(AutomaticPolicy, LeavesTheBarrierAndSaysWhy) {
  const training_report r = report_of_slow_run({.batches = 900});
  EXPECT_EQ(r.ledger.produced, 900U);
  ASSERT_FALSE(r.switches.empty());
  EXPECT_EQ(r.switches[0].from, "sync");
  EXPECT_EQ(r.switches[0].to, "async");
  EXPECT_THAT(r.switches[0].why, HasSubstr("at the barrier, more than 10 %"));
  EXPECT_GE(r.switches[0].step, 300U);
  EXPECT_GT(r.ledger.merged, 0U);
  EXPECT_GT(r.ledger.applied, 0U);
}

/// Labels that have nothing to do with the samples: nobody learns more than to be unsure, so gradients never
/// vanish.
std::shared_ptr<const data_split> noise(std::size_t count) {
  std::vector<std::int32_t> labels;
  for (std::size_t i = 0; i < count; ++i) labels.push_back(static_cast<std::int32_t>(i % small_classes));
  return std::make_shared<data_split>(
      data_split{{small_samples(count, 1).features(), std::move(labels), small_classes},
                 small_samples(24, 2),
                 "noise",
                 {}});
}

// A rate that the mean of eight fresh gradients bears, and one gradient after the other, each seven updates
// old, does not.
TEST_F(AutomaticPolicy, GoesBackToTheBarrierWhenStaleGradientsDoHarmAndSaysWhy) {
  data_ = noise(480);
  const training_report r =
      report_of_slow_run({.workers = 8, .batches = 5000, .optimizer = "sgd", .learning_rate = 0.8});
  ASSERT_GE(r.switches.size(), 2U);
  EXPECT_EQ(r.switches[0].to, "async");
  EXPECT_THAT(r.switches[0].why, HasSubstr("at the barrier, more than 10 %"));
  EXPECT_EQ(r.switches[1].from, "async");
  EXPECT_EQ(r.switches[1].to, "sync");
  EXPECT_THAT(r.switches[1].why, HasSubstr("above its best, at a mean staleness of 7.0"));
  EXPECT_GT(r.switches[1].step, r.switches[0].step);
  for (const policy_switch& s : r.switches) EXPECT_THAT(to_json(r), HasSubstr(s.why));
}

} // namespace
} // namespace mailgrad::testing
