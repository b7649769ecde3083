#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/tests/actors/runs/drawn_runs.hpp>
#include <mailgrad/tests/actors/runs/keeping_writer.hpp>
#include <mailgrad/tests/actors/runs/run_checks.hpp>
#include <mailgrad/tests/support/test_name.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>

// Runs that keep checkpoints while their workers die and come back. Another run goes on from each.

namespace mailgrad {
using messaging::kill, messaging::spawn;

namespace {

using testing::assembled_run;
using testing::assembly;
using testing::drawn_order;
using testing::drawn_orders;
using testing::expect_balanced;
using testing::keeping_writer;

constexpr std::uint64_t kept_batches = 16;
constexpr std::uint64_t samples = 9 * 5 + 3 + 6 * 5; ///< in these: the last batch of an epoch is smaller

class ElasticCheckpoints : public testing::DrawnRuns, public ::testing::WithParamInterface<const char*> {
protected:
  using checkpoints = keeping_writer::kept_checkpoints;

  static assembly small_run(std::uint32_t shards, std::uint32_t slots) {
    assembly a;
    a.policy = GetParam();
    a.shards = shards;
    a.slots = slots;
    a.batch = 5;
    a.batches = kept_batches;
    return a;
  }

  /// Workers die and come back meanwhile.
  checkpoints keep_some(assembly a, drawn_order& order) {
    const auto kept = std::make_shared<checkpoints>();
    a.checkpoint_every = 2;
    a.checkpoint_writer = spawn<keeping_writer>(system_.actors(), kept);
    {
      assembled_run run = assemble(a);
      const std::uint32_t slots = std::max(a.workers, a.slots);
      for (std::uint32_t i = 1; i < 4; ++i) {
        deliver(order, order.below(70));
        const auto r = static_cast<std::uint32_t>(order.below(slots));
        if (r < run.devices.size() && run.devices[r] && order.below(2) == 0) kill(run.devices[r]);
        deliver(order, order.below(30));
        if (order.below(3) != 0) run.add_worker(r, i);
      }
      deliver(order);
      if (run.times_ended() == 0) {
        messaging::send_anonymously(run.coordinator_actor, list_wait_reasons{});
        deliver(order);
      }
      EXPECT_EQ(run.times_ended(), 1U) << "somebody waits:\n" << run.waits();
      if (run.times_ended() == 1) expect_balanced(run);
    }
    kill(a.checkpoint_writer);
    deliver(order);
    return *kept;
  }

  /// Every worker dies or leaves, and the run, which waits for another, is stopped: at once, or when all
  /// messages have arrived.
  checkpoints stop_without_workers(assembly a, drawn_order& order) {
    const auto kept = std::make_shared<checkpoints>();
    a.waits_for_workers = std::chrono::nanoseconds::max();
    a.checkpoint_every = order.below(2) * 3; // or none before
    a.checkpoint_writer = spawn<keeping_writer>(system_.actors(), kept);
    {
      const assembled_run run = assemble(a);
      deliver(order, order.below(150));
      for (const caf::actor& device : run.devices)
        if (order.below(2) == 0)
          kill(device);
        else
          messaging::send_anonymously(device, leave_run{});
      const bool at_once = order.below(2) == 0;
      deliver(order, at_once ? order.below(30) : testing::deterministic_system::endless);
      if (run.times_ended() == 0) messaging::send_anonymously(run.coordinator_actor, stop_training{"enough"});
      deliver(order);
      EXPECT_EQ(run.times_ended(), 1U) << "somebody waits";
      if (run.times_ended() == 0) return {};
      expect_balanced(run);
      if (!at_once) {
        EXPECT_FALSE(kept->empty());
        if (kept->empty()) return {};
        EXPECT_EQ(steps_in(*kept->back()), steps_of(run, 0));
      }
    }
    kill(a.checkpoint_writer);
    deliver(order);
    return *kept;
  }

  static checkpoint_card card_of(const checkpoint& from) {
    checkpoint_card card;
    from.part("run")->field("card", card);
    return card;
  }
  static std::uint64_t steps_in(const checkpoint& from) { return card_of(from).steps; }
  /// How many of these lack a worker that had died.
  static std::size_t without_a_worker(const checkpoints& all) {
    return static_cast<std::size_t>(std::ranges::count_if(
        all, [](const auto& from) { return std::ranges::count(card_of(*from).present, false) > 0; }));
  }

  /// Of the run and of those before it, whose workers do not go on.
  static std::uint64_t steps_of(const assembled_run& run, std::uint64_t before) {
    for (const worker_report& w : run.outcome().workers) before += w.steps;
    return before;
  }

  static void expect_steps_of_end(const checkpoints& kept, std::uint64_t steps) {
    ASSERT_FALSE(kept.empty());
    ASSERT_EQ(steps_in(*kept.back()), steps);
    ASSERT_EQ(kept.back()->path(), "checkpoint of step " + std::to_string(steps)) << "its name";
  }

  static std::uint64_t samples_of(const assembled_run& run) {
    std::uint64_t all = 0;
    for (const worker_report& w : run.outcome().workers) all += w.samples;
    return all;
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
        deliver(order);
        ASSERT_EQ(run.times_ended(), 1U) << "somebody waits";
        ASSERT_EQ(run.outcome().how, run_outcome::ending::completed) << run.outcome().why;
        ASSERT_EQ(steps_of(run, a.slots > 0 ? steps_in(*from) : 0), kept_batches);
        if (a.slots > 0) continue; // all accounts begin anew
        ASSERT_EQ(samples_of(run), samples);
        expect_balanced(run);
        for (const shard_report& s : run.outcome().shards) ASSERT_EQ(testing::judged_by(s), kept_batches);
      }
    }
}

/// Workers that die and others that leave end a run together, perhaps while a checkpoint is collected.
TEST_P(ElasticCheckpoints, OfTheEndHaveTheStepsOfTheReport) {
  for (const std::uint32_t shards : {1U, 2U})
    for (drawn_order& order : drawn_orders(60)) {
      assembly a = small_run(shards, 0);
      const auto kept = std::make_shared<checkpoints>();
      a.checkpoint_every = 3;
      a.checkpoint_writer = spawn<keeping_writer>(system_.actors(), kept);
      {
        assembled_run run = assemble(a);
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
            messaging::send_anonymously(run.devices[r], leave_run{});
          else
            kill(run.devices[r]);
          deliver(order, order.below(10));
        }
        deliver(order);
        ASSERT_EQ(run.times_ended(), 1U) << "somebody waits";
        const bool all_lost = run.outcome().how != run_outcome::ending::completed;
        if (!all_lost) expect_steps_of_end(*kept, report_of(run.outcome(), {}).steps);
      }
      kill(a.checkpoint_writer);
      deliver(order);
    }
}

/// Nobody works then, so all that is known is one state.
TEST_P(ElasticCheckpoints, AreTakenAtAStopThatFindsNobody) {
  std::size_t stopped = 0;
  for (const std::uint32_t shards : {1U, 2U})
    for (drawn_order& order : drawn_orders(60)) {
      assembly a = small_run(shards, 0);
      const checkpoints kept = stop_without_workers(a, order);
      if (kept.empty()) continue; // it was stopped before all workers had joined
      ++stopped;
      a.resume = kept.back();
      const assembled_run run = assemble(a);
      deliver(order);
      ASSERT_EQ(run.times_ended(), 1U) << "somebody waits";
      ASSERT_EQ(run.outcome().how, run_outcome::ending::completed) << run.outcome().why;
      ASSERT_EQ(steps_of(run, 0), kept_batches);
      expect_balanced(run);
      for (const shard_report& s : run.outcome().shards) ASSERT_EQ(testing::judged_by(s), kept_batches);
    }
  EXPECT_GT(stopped, drawn_orders(60).count()) << "too few had begun";
}

/// Their steps are those of all workers, also of lost ones, or an older checkpoint would be taken for the
/// newest.
TEST_P(ElasticCheckpoints, CountStepsThatNeverFall) {
  std::size_t lacking = 0;
  for (drawn_order& order : drawn_orders(100)) {
    assembly a = small_run(2, order.seed() % 3 == 0 ? 4 : 0);
    std::uint64_t before = 0;
    const checkpoints kept = keep_some(a, order);
    for (const auto& from : kept) {
      ASSERT_GE(steps_in(*from), before);
      before = steps_in(*from);
    }
    if (a.slots == 0) lacking += without_a_worker(kept);
  }
  EXPECT_GT(lacking, 0U) << "no worker died before a checkpoint";
}

TEST_P(ElasticCheckpoints, KeepTheBooksOfWorkersThatDieInSeveralProcesses) {
  constexpr std::size_t all = 25;
  std::size_t lacking = 0;
  const drawn_orders orders(all, 5);
  for (drawn_order& order : orders) {
    assembly a = small_run(2, 0);
    const checkpoints first = keep_some(a, order);
    if (first.empty()) continue;
    const auto kept = std::make_shared<checkpoints>();
    a.resume = first[order.below(first.size())];
    a.checkpoint_every = 2;
    a.checkpoint_writer = spawn<keeping_writer>(system_.actors(), kept);
    {
      assembled_run run = assemble(a);
      disturb(run, order);
      deliver(order);
      ASSERT_EQ(run.times_ended(), 1U) << "somebody waits";
      expect_balanced(run);
    }
    kill(a.checkpoint_writer);
    deliver(order);
    a.checkpoint_writer = {};
    a.checkpoint_every = 0;
    lacking += without_a_worker(*kept);
    std::uint64_t before = steps_in(*a.resume);
    for (const auto& from : *kept) {
      ASSERT_GE(steps_in(*from), before);
      before = steps_in(*from);
      a.resume = from;
      const assembled_run run = assemble(a);
      deliver(order);
      ASSERT_EQ(run.times_ended(), 1U) << "somebody waits";
      expect_balanced(run);
      ASSERT_EQ(steps_of(run, 0), kept_batches);
    }
  }
  EXPECT_TRUE(lacking > 0 || orders.count() < all)
      << "no worker died before a checkpoint of the second process";
}

INSTANTIATE_TEST_SUITE_P(EveryPolicy, ElasticCheckpoints,
                         ::testing::Values("async", "sync", "ssp:1", "dssp:0,2", "backup:1", "k-async:2",
                                           "k-batch-async:2", "queue:2,3", "quorum:2,grace=0.0005",
                                           "k-batch-sync:2", "rennala:3", "ringmaster:2", "malenia:4",
                                           "ringleader", "async, sync@5, async@9"),
                         [](const auto& of) { return testing::test_name(of.param); });

} // namespace
} // namespace mailgrad
