#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/tests/actors/runs/drawn_runs.hpp>
#include <mailgrad/tests/actors/runs/hogwild_cut.hpp>
#include <mailgrad/tests/actors/runs/keeping_writer.hpp>
#include <mailgrad/tests/actors/runs/run_checks.hpp>
#include <mailgrad/tests/engine/worker/late_runner.hpp>
#include <mailgrad/tests/support/test_name.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <ranges>
#include <string>
#include <vector>

// Runs whose workers write into one block, and whose state is kept while they go on. Their steps end when
// they like, so that a checkpoint finds some worker in the middle of one.

namespace mailgrad {
using messaging::kill, messaging::send_anonymously, messaging::spawn;

namespace {

using testing::assembled_run;
using testing::assembly;
using testing::drawn_order;
using testing::drawn_orders;
using testing::keeping_writer;
using testing::late_runner;
using testing::late_steps;
using testing::told_by;
using testing::told_steps;

constexpr std::uint64_t hogwild_orders = 40, least_hogwild = 4; // each takes many runs
constexpr float counting_rate = 0.25F;

/// Computes a gradient of ones in place of that of the batch. With plain SGD each step then moves every
/// weight by the learning rate, so the weights tell how many steps they have seen.
class counting_runner final : public late_runner {
public:
  using late_runner::late_runner;
  step_state begin_step(std::shared_ptr<const batch> inputs, std::shared_ptr<gradient> out) override {
    computed_ = out;
    return late_runner::begin_step(std::move(inputs), std::move(out));
  }
  float end_step() override {
    const float loss = late_runner::end_step();
    std::ranges::fill(computed_->dense.on_host<float>(), 1.0F);
    computed_.reset();
    return loss;
  }

private:
  std::shared_ptr<gradient> computed_;
};

struct result {
  std::vector<float> weights;
  run_outcome outcome;
  training_report report;
  keeping_writer::kept_checkpoints checkpoints;
};

class HogwildCheckpoints : public testing::DrawnRuns, public ::testing::WithParamInterface<const char*> {
protected:
  static assembly small_run(std::uint64_t seed) {
    assembly a;
    a.policy = GetParam();
    a.batches = 24;
    a.checkpoint_every = 2 + seed % 3;
    return a;
  }

  /// Delivers messages and ends steps in a drawn order until neither is left; at most `most` of them.
  void play(drawn_order& order, late_steps& steps,
            std::size_t most = testing::deterministic_system::endless) {
    for (std::size_t played = 0; played < most; ++played) {
      if (order.below(4) == 0 && steps.end_one()) continue;
      if (deliver(order, 1) == 0 && !steps.end_one()) return;
    }
  }

  template <class Runner = late_runner>
  std::optional<result> run(assembly a, drawn_order& order) {
    late_steps steps(order.seed());
    a.runner = [&steps](rank, std::shared_ptr<step_runner> own) {
      return std::make_shared<Runner>(std::move(own), steps);
    };
    const auto kept = std::make_shared<keeping_writer::kept_checkpoints>();
    a.checkpoint_writer = spawn<keeping_writer>(system_.actors(), kept);
    std::optional<result> ended;
    {
      const assembled_run run = assemble(a);
      play(order, steps);
      if (run.times_ended() == 0) {
        send_anonymously(run.coordinator_actor, list_wait_reasons{});
        deliver(order);
      }
      EXPECT_EQ(run.times_ended(), 1U) << run.waits();
      if (run.times_ended() == 1) {
        EXPECT_EQ(run.outcome().why, "");
        testing::expect_balanced(run);
        const bool sharded = !run.outcome().shards.empty();
        ended = result{sharded ? run.weights() : run.block(), run.outcome(),
                       report_of(run.outcome(), run.written()), *kept};
      }
    }
    kill(a.checkpoint_writer);
    deliver(order);
    return ended;
  }

  static void expect_same(const result& was, const result& is) {
    ASSERT_EQ(was.weights.size(), is.weights.size());
    EXPECT_EQ(0, std::memcmp(was.weights.data(), is.weights.data(), was.weights.size() * sizeof(float)));
    EXPECT_EQ(was.report.ledger.produced, is.report.ledger.produced);
    EXPECT_EQ(was.report.samples, is.report.samples);
    EXPECT_EQ(was.report.final_loss, is.report.final_loss);
    EXPECT_EQ(was.report.updates, is.report.updates);
    EXPECT_EQ(was.report.switches.size(), is.report.switches.size());
    if (std::string(GetParam()) == "hogwild") { // else they depend on the moment of a switch
      EXPECT_EQ(was.report.ledger, is.report.ledger);
      EXPECT_EQ(was.report.staleness.buckets(), is.report.staleness.buckets());
    }
  }
};

/// A switch comes before or after the batch that a worker has in hand, so the weights of several policies are
/// the same only with a rule without state.
TEST_P(HogwildCheckpoints, OfOneWorkerGoOnToTheSameWeights) {
  for (const char* rule : {"sgd", "momentum", "adam"}) {
    if (std::string(rule) != "sgd" && std::string(GetParam()) != "hogwild") continue;
    for (const std::uint32_t shards : {1U, 3U})
      for (drawn_order& order : drawn_orders(hogwild_orders / 4, least_hogwild)) {
        assembly a = small_run(order.seed());
        a.workers = 1;
        a.optimizer = rule;
        a.shards = shards;
        const auto was = run(a, order);
        ASSERT_TRUE(was);
        for (const auto& from : was->checkpoints) {
          SCOPED_TRACE(std::string(rule) + ", resumed from " + from->path().string());
          a.resume = from;
          const auto is = run(a, order);
          ASSERT_TRUE(is);
          expect_same(*was, *is);
        }
      }
  }
}

/// The state of a worker's rule outlives the worker, which has ended by then.
TEST_P(HogwildCheckpoints, OfACompletedRunMakeItLonger) {
  for (drawn_order& order : drawn_orders(hogwild_orders / 4, least_hogwild)) {
    assembly a = small_run(order.seed());
    a.workers = 1;
    if (std::string(GetParam()) != "hogwild") a.optimizer = "sgd";
    const auto was = run(a, order);
    a.batches = 12;
    const auto half = run(a, order);
    ASSERT_TRUE(was && half);
    a.batches = 24;
    a.resume = half->checkpoints.back();
    const auto is = run(a, order);
    ASSERT_TRUE(is);
    expect_same(*was, *is);
  }
}

TEST_P(HogwildCheckpoints, OfSeveralWorkersLetEachBatchBeTrainedOnce) {
  for (const std::uint32_t shards : {1U, 3U})
    for (drawn_order& order : drawn_orders(hogwild_orders, least_hogwild)) {
      assembly a = small_run(order.seed());
      a.shards = shards;
      const auto was = run(a, order);
      ASSERT_TRUE(was);
      EXPECT_FALSE(was->checkpoints.empty());
      for (const auto& from : was->checkpoints) {
        SCOPED_TRACE("resumed from " + from->path().string());
        a.resume = from;
        const auto is = run(a, order);
        ASSERT_TRUE(is);
        EXPECT_EQ(is->outcome.how, run_outcome::ending::completed);
        EXPECT_EQ(is->report.steps, a.batches);
        EXPECT_EQ(is->report.samples, was->report.samples);
        EXPECT_EQ(is->report.ledger.produced, a.batches);
        EXPECT_EQ(is->report.ledger.lost, 0U);
        EXPECT_EQ(is->report.switches.size(), was->report.switches.size());
      }
    }
}

TEST_P(HogwildCheckpoints, AreOneCutThroughBlockWorkersAndFeeder) {
  std::size_t in_block = 0;
  for (const std::uint32_t shards : {1U, 3U})
    for (drawn_order& order : drawn_orders(hogwild_orders, least_hogwild)) {
      assembly a = small_run(order.seed());
      a.shards = shards;
      a.optimizer = "sgd";
      a.learning_rate = counting_rate;
      const auto was = run<counting_runner>(a, order);
      ASSERT_TRUE(was);
      for (const auto& from : was->checkpoints) {
        SCOPED_TRACE(from->path().string());
        const told_steps told = told_by(*from, a.workers, a.policy == "hogwild" ? 0 : a.shards);
        EXPECT_EQ(told.of_block, told.written);
        EXPECT_EQ(told.taken, told.counted);
        if (!told.in_block) continue;
        ++in_block;
        const auto later = static_cast<float>(a.batches - told.counted);
        ASSERT_EQ(told.weights.size(), was->weights.size());
        for (std::size_t i = 0; i < told.weights.size(); ++i)
          ASSERT_NEAR(told.weights[i] - counting_rate * later, was->weights[i], 1e-4) << "weight " << i;
      }
    }
  EXPECT_GT(in_block, drawn_orders(hogwild_orders, least_hogwild).count())
      << "too few checkpoints were taken under hogwild";
}

/// Their steps end at once, since a worker that is killed waits for the step under way.
TEST_P(HogwildCheckpoints, KeepNobodyWaitingWhoeverDies) {
  for (drawn_order& order : drawn_orders(hogwild_orders * 4)) {
    assembly a = small_run(order.seed());
    const auto kept = std::make_shared<keeping_writer::kept_checkpoints>();
    a.checkpoint_writer = spawn<keeping_writer>(system_.actors(), kept);
    {
      const assembled_run run = assemble(a);
      deliver(order, order.below(200));
      const std::uint64_t victim = order.below(6);
      if (victim < 3) kill(run.devices[victim]);
      if (victim == 3) kill(run.feeder_actor);
      if (victim == 4 && !run.shards.empty()) kill(run.shards.back());
      deliver(order);
      ASSERT_EQ(run.times_ended(), 1U) << "somebody waits";
      testing::expect_balanced(run);
    }
    kill(a.checkpoint_writer);
    deliver(order);
    a.checkpoint_writer = {};
    for (const auto& from : *kept) {
      a.resume = from;
      const assembled_run is = assemble(a);
      deliver(order);
      ASSERT_EQ(is.times_ended(), 1U) << "somebody waits";
      EXPECT_EQ(is.outcome().how, run_outcome::ending::completed);
      checkpoint_card card;
      from->part("run")->field("card", card);
      if (std::ranges::find(card.present, false) != card.present.end()) continue; // an account begins anew
      testing::expect_balanced(is);
    }
  }
}

/// Another number of workers begins anew from the weights, and schedules go on.
TEST_P(HogwildCheckpoints, LetOtherWorkersGoOn) {
  for (drawn_order& order : drawn_orders(hogwild_orders, least_hogwild)) {
    assembly a = small_run(order.seed());
    const auto was = run(a, order);
    ASSERT_TRUE(was);
    for (const auto& from : was->checkpoints) {
      checkpoint_card card;
      from->part("run")->field("card", card);
      assembly b = a;
      b.workers = order.seed() % 2 == 0 ? 2 : 4;
      b.resume = from;
      const auto is = run(b, order);
      ASSERT_TRUE(is);
      EXPECT_EQ(is->report.steps, a.batches - card.steps);
      EXPECT_EQ(is->report.ledger.produced, is->report.steps);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, HogwildCheckpoints,
                         ::testing::Values("hogwild", "hogwild, async@6", "async, hogwild@5",
                                           "sync, hogwild@4, async@9", "hogwild, ssp:1@4, hogwild@8"),
                         [](const auto& of) { return testing::test_name(of.param); });

} // namespace
} // namespace mailgrad
