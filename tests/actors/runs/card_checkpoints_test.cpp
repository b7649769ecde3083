#include <mailgrad/tests/actors/runs/card_runs.hpp>
#include <mailgrad/tests/actors/runs/keeping_writer.hpp>
#include <mailgrad/tests/actors/runs/recorded_runs.hpp>
#include <mailgrad/tests/actors/runs/run_checks.hpp>
#include <mailgrad/tests/engine/worker/card_replica_fixture.hpp>
#include <mailgrad/tests/support/simulated_card/card_control.hpp>
#include <mailgrad/tests/support/test_name.hpp>

#include <gtest/gtest.h>

#include <optional>

// Checkpoints of runs whose workers run ahead of the simulated card, which runs what is queued as late as it
// may. Most marks fall between a gradient and the end of its step.

namespace mailgrad {
namespace {

using testing::asked_watch;
using testing::assembled_run;
using testing::assembly;
using testing::drawn_order;
using testing::drawn_orders;
using testing::keeping_writer;

class CardCheckpoints : public testing::RecordedRun, public ::testing::WithParamInterface<const char*> {
protected:
  static constexpr std::uint64_t orders = 12;

  struct result {
    std::vector<float> weights;
    run_outcome outcome;
    training_report report;
    keeping_writer::kept_checkpoints checkpoints;
  };

  void SetUp() override {
    simulated_card::settings s = simulated_card::default_settings();
    s.when = simulated_card::timing::late;
    s.late_queries = 2;
    simulated_card::set_up(s);
  }
  void TearDown() override { simulated_card::set_up(simulated_card::default_settings()); }

  std::optional<result> run(assembly a, drawn_order& order) {
    const auto watch = std::make_shared<asked_watch>();
    const auto kept = std::make_shared<keeping_writer::kept_checkpoints>();
    a.parameters = {{device_kind::cuda, 0}};
    a.watch = watch;
    a.checkpoint_writer = messaging::spawn<keeping_writer>(system_.actors(), kept);
    std::optional<result> ended;
    {
      const assembled_run run = assemble(a);
      for (;;) {
        if (order.below(4) == 0) watch->ask();
        if (deliver(order, 1) > 0) continue;
        if (watch->watched() == 0) break;
        watch->ask();
      }
      EXPECT_EQ(run.times_ended(), 1U);
      if (run.times_ended() == 1) {
        EXPECT_EQ(run.outcome().why, "");
        testing::expect_balanced(run);
        ended = result{run.weights(), run.outcome(), report_of(run.outcome()), *kept};
      }
    }
    messaging::kill(a.checkpoint_writer);
    deliver(order);
    return ended;
  }
};

TEST_P(CardCheckpoints, GoOnToTheSameWeightsAndReport) {
  const bool alone = std::string_view(GetParam()) != "sync";
  for (drawn_order& order : drawn_orders(orders)) {
    assembly a;
    a.policy = GetParam();
    a.workers = alone ? 1 : 3;
    a.shards = 1 + order.seed() % 2;
    a.checkpoint_every = 2 + order.seed() % 3;
    const auto was = run(a, order);
    ASSERT_TRUE(was);
    EXPECT_GE(was->checkpoints.size(), 2U);
    for (const auto& from : was->checkpoints) {
      a.resume = from;
      const auto is = run(a, order);
      ASSERT_TRUE(is);
      EXPECT_EQ(is->weights, was->weights);
      EXPECT_EQ(is->report.ledger, was->report.ledger);
      EXPECT_EQ(is->report.samples, was->report.samples);
      EXPECT_EQ(is->report.final_loss, was->report.final_loss);
      EXPECT_EQ(is->report.staleness.buckets(), was->report.staleness.buckets());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, CardCheckpoints,
                         ::testing::Values("async", "sync", "ssp:1", "k-batch-async:2",
                                           "async, ssp:1@5, async@9"),
                         [](const auto& policy) { return testing::test_name(policy.param); });

/// Runs whose bits depend on the order of messages: nothing is lost, and nothing counts twice.
class CardCheckpointsOfSeveral : public CardCheckpoints {};

TEST_P(CardCheckpointsOfSeveral, TrainEachBatchOnce) {
  for (drawn_order& order : drawn_orders(orders)) {
    assembly a;
    a.policy = GetParam();
    a.shards = 1 + order.seed() % 2;
    a.checkpoint_every = 2 + order.seed() % 3;
    const auto was = run(a, order);
    ASSERT_TRUE(was);
    for (const auto& from : was->checkpoints) {
      a.resume = from;
      const auto is = run(a, order);
      ASSERT_TRUE(is);
      EXPECT_EQ(is->report.ledger.produced, a.batches);
      EXPECT_EQ(is->report.samples, was->report.samples);
      std::uint64_t told = 0;
      for (const worker_report& w : is->outcome.workers) told += w.last_losses.samples();
      EXPECT_EQ(told, is->report.samples) << "each loss is told once, since no worker takes many steps";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, CardCheckpointsOfSeveral,
                         ::testing::Values("async", "ssp:1", "backup:1", "k-async:2", "k-batch-sync:2",
                                           "async, sync@5, async@9"),
                         [](const auto& policy) { return testing::test_name(policy.param); });

} // namespace
} // namespace mailgrad
