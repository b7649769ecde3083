#include <mailgrad/tests/actors/runs/hogwild_checkpoints.hpp>

#include <chrono>

// Whole runs whose workers come and go at any time, in thousands of orders of delivery.

namespace mailgrad::testing {
namespace {

using messaging::kill, messaging::send_anonymously;
using namespace std::chrono_literals;

constexpr std::uint64_t elastic_orders = 300; // for each test of every policy
constexpr std::uint32_t elastic_slots = 5;
constexpr std::uint64_t elastic_batches = 12;

class ElasticRuns : public DrawnRuns, public ::testing::WithParamInterface<policy_on_shards> {
protected:
  static assembly with_slots() {
    const auto& [policy, shards] = GetParam();
    return {.policy = policy, .slots = elastic_slots, .shards = shards, .batches = elastic_batches};
  }
  std::size_t length_of_a_run() { return length_of(with_slots()); }
  /// Plays `a` in all orders while `least` to `least` + 5 times something happens, each after at most so many
  /// messages, and has `check` look at the runs that complete. Returns their number.
  template <class Event, class Check>
  std::uint64_t disturb(const assembly& a, std::uint64_t least, std::size_t apart, Event event, Check check) {
    std::uint64_t whole = 0;
    const auto events = [&](assembled_run& run, drawn_order& order) {
      comings_and_goings workers(run, order, elastic_slots);
      for (std::uint64_t i = least + order.below(6); i > 0; --i) {
        deliver(order, order.below(apart));
        event(run, order, workers);
      }
    };
    in_orders(drawn_orders(elastic_orders), a, events, [&](const assembled_run& run) {
      expect_balanced(run);
      if (run.outcome().how != run_outcome::ending::completed) return; // all are lost, or have left
      ++whole;
      check(run.outcome());
    });
    return whole;
  }
  static void come_or_go(const assembled_run&, drawn_order&, comings_and_goings& workers) { workers.one(); }
};

TEST_P(ElasticRuns, JudgeEachBatchOnceOnEveryShardWhoeverComesAndGoes) {
  std::uint64_t lost = 0;
  const auto check = [&](const run_outcome& outcome) {
    lost += static_cast<std::uint64_t>(std::ranges::count(outcome.lost, true));
    for (const shard_report& s : outcome.shards) ASSERT_EQ(judged_by(s) + outcome.untrained, elastic_batches);
    const gradient_ledger l = audit(outcome, {}).ledger;
    EXPECT_EQ(l.produced - l.lost + outcome.untrained, elastic_batches) << to_string(l);
    EXPECT_EQ(report_of(outcome).samples, (elastic_batches - outcome.untrained) * assembly{}.batch);
  };
  const std::uint64_t whole = disturb(with_slots(), 1, length_of_a_run() / 3, come_or_go, check);
  EXPECT_GT(whole, drawn_orders(elastic_orders).count() / 2);
  EXPECT_GT(lost, drawn_orders(elastic_orders).count() / 8);
}

/// One more actor between workers and shards brings a gradient after the news that its worker is lost.
TEST_P(ElasticRuns, JudgeNoBatchTwiceThoughMessagesComeLate) {
  const std::size_t length = length_of_a_run();
  assembly a = with_slots();
  a.overhear = true;
  const std::uint64_t whole = disturb(a, 1, length / 2, come_or_go, [&](const run_outcome& outcome) {
    std::uint64_t most = 0;
    for (const shard_report& s : outcome.shards) {
      ASSERT_LE(judged_by(s), elastic_batches);
      most = std::max(most, judged_by(s));
    }
    EXPECT_TRUE(a.shards > 1 || most + outcome.untrained == elastic_batches);
  });
  EXPECT_GT(whole, drawn_orders(elastic_orders).count() / 2);
}

TEST_P(ElasticRuns, WaitForAWorkerAndTrainEveryBatch) {
  assembly a = with_slots();
  a.waits_for_workers = 1h;
  std::uint64_t waited = 0;
  const auto lose_all = [&, length = length_of_a_run()](assembled_run& run, drawn_order& order) {
    deliver(order, order.below(length));
    for (std::uint32_t r = 0; r < 3; ++r)
      if (order.below(8) != 0) kill(run.devices[r]);
    deliver(order);
    for (std::uint32_t incarnation = 1; run.times_ended() == 0 && incarnation < 4; ++incarnation) {
      ++waited;
      run.add_worker(static_cast<std::uint32_t>(order.below(3)), incarnation);
      if (incarnation < 3 && order.below(2) == 0) {
        deliver(order, order.below(length / 4));
        for (const caf::actor& d : run.devices) kill(d);
      }
      deliver(order);
    }
  };
  in_orders(drawn_orders(elastic_orders), a, lose_all, [](const assembled_run& run) {
    expect_completed(run);
    EXPECT_EQ(run.outcome().untrained, 0U);
    for (const shard_report& s : run.outcome().shards) ASSERT_EQ(judged_by(s), elastic_batches);
  });
  EXPECT_GT(waited, drawn_orders(elastic_orders).count() / 4);
}

TEST_P(ElasticRuns, TakeSwitchesCheckpointsAndStopsWhoeverComesAndGoes) {
  const auto event = [](const assembled_run& run, drawn_order& order, comings_and_goings& workers) {
    const std::uint64_t what = order.below(8);
    if (what < 2)
      send_anonymously(run.coordinator_actor, request_switch{what == 0 ? "ssp:1" : "sync", "by hand"});
    else if (what == 2 && order.below(4) == 0)
      send_anonymously(run.coordinator_actor, stop_training{"enough"});
    else
      workers.one();
  };
  const auto check = [](const run_outcome& outcome) {
    for (const shard_report& s : outcome.shards) ASSERT_EQ(judged_by(s) + outcome.untrained, elastic_batches);
  };
  const std::uint64_t whole = disturb(with_slots(), 2, length_of_a_run() / 3, event, check);
  EXPECT_GT(whole, drawn_orders(elastic_orders).count() / 4);
}

INSTANTIATE_TEST_SUITE_P(EveryPolicy, ElasticRuns,
                         ::testing::Combine(::testing::ValuesIn(ordered_policies), ::testing::Values(1U, 2U)),
                         name_on_shards);

// ---- runs that keep checkpoints while their workers die and come back. Another run goes on from each

constexpr std::uint64_t kept_batches = 16;
constexpr std::uint64_t samples = 9 * 5 + 3 + 6 * 5; ///< in these: the last batch of an epoch is smaller

class ElasticCheckpoints : public DrawnRuns, public ::testing::WithParamInterface<const char*> {
protected:
  static assembly small_run(std::uint32_t shards, std::uint32_t slots) {
    return {.policy = GetParam(), .slots = slots, .shards = shards, .batch = 5, .batches = kept_batches};
  }
  /// Workers die and come back meanwhile.
  kept_checkpoints keep_some(assembly a, drawn_order& order) {
    a.checkpoint_every = 2;
    return checkpoints_of(a, order, [&](assembled_run& run, const kept_checkpoints&) {
      const std::uint32_t slots_of_run = std::max(a.workers, a.slots);
      for (std::uint32_t i = 1; i < 4; ++i) {
        deliver(order, order.below(70));
        const auto r = static_cast<std::uint32_t>(order.below(slots_of_run));
        if (r < run.devices.size() && run.devices[r] && order.below(2) == 0) kill(run.devices[r]);
        deliver(order, order.below(30));
        if (order.below(3) != 0) run.add_worker(r, i);
      }
      deliver_to_end(order, run);
      expect_balanced(run);
    });
  }
  /// Every worker dies or leaves, and the run is stopped: at once, or when all messages have arrived.
  kept_checkpoints stop_without_workers(assembly a, drawn_order& order) {
    a.waits_for_workers = std::chrono::nanoseconds::max();
    a.checkpoint_every = order.below(2) * 3; // or none before
    return checkpoints_of(a, order, [&](const assembled_run& run, const kept_checkpoints& kept) {
      deliver(order, order.below(150));
      for (const caf::actor& device : run.devices)
        if (order.below(2) == 0)
          kill(device);
        else
          send_anonymously(device, leave_run{});
      const bool at_once = order.below(2) == 0;
      deliver(order, at_once ? order.below(30) : deterministic_system::endless);
      if (run.times_ended() == 0) send_anonymously(run.coordinator_actor, stop_training{"enough"});
      deliver_to_end(order, run);
      expect_balanced(run);
      if (at_once) return;
      ASSERT_FALSE(kept.empty());
      EXPECT_EQ(steps_in(*kept.back()), steps_of(run, 0));
    });
  }

  static std::uint64_t steps_in(const checkpoint& from) { return card_of(from).steps; }
  /// How many of these lack a worker that had died.
  static std::size_t without_a_worker(const kept_checkpoints& all) {
    return static_cast<std::size_t>(std::ranges::count_if(
        all, [](const auto& from) { return std::ranges::count(card_of(*from).present, false) > 0; }));
  }
  /// Of the run and of those before it, whose workers do not go on.
  static std::uint64_t steps_of(const assembled_run& run, std::uint64_t before) {
    return before + report_of(run.outcome()).steps;
  }
  /// A worker dies once more in the run that goes on, and comes back or does not.
  void disturb(assembled_run& run, drawn_order& order) {
    deliver(order, order.below(60));
    const auto r = static_cast<std::uint32_t>(order.below(run.devices.size()));
    if (run.times_ended() > 0 || !run.devices[r]) return;
    kill(run.devices[r]);
    deliver(order, order.below(30));
    if (order.below(2) == 0) run.add_worker(r, 1);
  }
};

TEST_P(ElasticCheckpoints, LetAnotherRunTrainWhatIsLeft) {
  for (const std::uint32_t shards : {1U, 2U})
    for (drawn_order& order : drawn_orders(150)) {
      assembly a = small_run(shards, order.seed() % 3 == 0 ? 4 : 0);
      for (const auto& from : keep_some(a, order)) {
        a.resume = from;
        const assembled_run run = assemble(a);
        deliver_to_end(order, run);
        ASSERT_EQ(run.outcome().how, run_outcome::ending::completed) << run.outcome().why;
        ASSERT_EQ(steps_of(run, a.slots > 0 ? steps_in(*from) : 0), kept_batches);
        if (a.slots > 0) continue; // all accounts begin anew
        ASSERT_EQ(report_of(run.outcome()).samples, samples);
        expect_balanced(run);
        for (const shard_report& s : run.outcome().shards) ASSERT_EQ(judged_by(s), kept_batches);
      }
    }
}

/// Workers that die and others that leave end a run together, perhaps while a checkpoint is collected.
TEST_P(ElasticCheckpoints, OfTheEndHaveTheStepsOfTheReport) {
  for (const std::uint32_t shards : {1U, 2U})
    for (drawn_order& order : drawn_orders(60)) {
      assembly a = small_run(shards, 0);
      a.checkpoint_every = 3;
      checkpoints_of(a, order, [&](assembled_run& run, const kept_checkpoints& kept) {
        deliver(order, order.below(150));
        if (order.below(2) == 0) { // somebody has come back before
          const auto back = static_cast<std::uint32_t>(order.below(a.workers));
          kill(run.devices[back]);
          deliver(order, order.below(40));
          if (run.times_ended() == 0) run.add_worker(back, 1);
          deliver(order, order.below(60));
        }
        const auto leaves = order.below(a.workers);
        for (std::uint32_t r = 0; r < a.workers; ++r) {
          if (r == leaves)
            send_anonymously(run.devices[r], leave_run{});
          else
            kill(run.devices[r]);
          deliver(order, order.below(10));
        }
        deliver_to_end(order, run);
        if (run.outcome().how != run_outcome::ending::completed) return; // all are lost
        const std::uint64_t steps = report_of(run.outcome(), {}).steps;
        ASSERT_FALSE(kept.empty());
        ASSERT_EQ(steps_in(*kept.back()), steps);
        ASSERT_EQ(kept.back()->path(), "checkpoint of step " + std::to_string(steps)) << "its name";
      });
    }
}

/// Nobody works then, so all that is known is one state.
TEST_P(ElasticCheckpoints, AreTakenAtAStopThatFindsNobody) {
  std::size_t stopped = 0;
  for (const std::uint32_t shards : {1U, 2U})
    for (drawn_order& order : drawn_orders(60)) {
      assembly a = small_run(shards, 0);
      const kept_checkpoints kept = stop_without_workers(a, order);
      if (kept.empty()) continue; // it was stopped before all workers had joined
      ++stopped;
      a.resume = kept.back();
      const assembled_run run = assemble(a);
      deliver_to_end(order, run);
      ASSERT_EQ(run.outcome().how, run_outcome::ending::completed) << run.outcome().why;
      ASSERT_EQ(steps_of(run, 0), kept_batches);
      expect_balanced(run);
      for (const shard_report& s : run.outcome().shards) ASSERT_EQ(judged_by(s), kept_batches);
    }
  EXPECT_GT(stopped, drawn_orders(60).count()) << "too few had begun";
}

/// Steps of lost workers count, too, or an older checkpoint would be taken for the newest.
TEST_P(ElasticCheckpoints, CountStepsThatNeverFall) {
  std::size_t lacking = 0;
  for (drawn_order& order : drawn_orders(100)) {
    assembly a = small_run(2, order.seed() % 3 == 0 ? 4 : 0);
    const kept_checkpoints kept = keep_some(a, order);
    EXPECT_TRUE(std::ranges::is_sorted(kept, {}, [](const auto& from) { return steps_in(*from); }));
    if (a.slots == 0) lacking += without_a_worker(kept);
  }
  EXPECT_GT(lacking, 0U) << "no worker died before a checkpoint";
}

TEST_P(ElasticCheckpoints, KeepTheBooksOfWorkersThatDieInSeveralProcesses) {
  constexpr std::size_t all = 25;
  std::size_t lacking = 0;
  const drawn_orders tried(all, 5);
  for (drawn_order& order : tried) {
    assembly a = small_run(2, 0);
    const kept_checkpoints first = keep_some(a, order);
    if (first.empty()) continue;
    a.resume = first[order.below(first.size())];
    a.checkpoint_every = 2;
    const kept_checkpoints kept = checkpoints_of(a, order, [&](assembled_run& run, const kept_checkpoints&) {
      disturb(run, order);
      deliver_to_end(order, run);
      expect_balanced(run);
    });
    a.checkpoint_every = 0;
    lacking += without_a_worker(kept);
    std::uint64_t before = steps_in(*a.resume);
    for (const auto& from : kept) {
      ASSERT_GE(steps_in(*from), before);
      before = steps_in(*from);
      a.resume = from;
      const assembled_run run = assemble(a);
      deliver_to_end(order, run);
      expect_balanced(run);
      ASSERT_EQ(steps_of(run, 0), kept_batches);
    }
  }
  EXPECT_TRUE(lacking > 0 || tried.count() < all)
      << "no worker died before a checkpoint of the second process";
}

INSTANTIATE_TEST_SUITE_P(EveryPolicy, ElasticCheckpoints,
                         ::testing::Values("async", "sync", "ssp:1", "dssp:0,2", "backup:1", "k-async:2",
                                           "k-batch-async:2", "queue:2,3", "quorum:2,grace=0.0005",
                                           "k-batch-sync:2", "rennala:3", "ringmaster:2", "malenia:4",
                                           "ringleader", "async, sync@5, async@9"),
                         name_of_policy);

} // namespace
} // namespace mailgrad::testing
