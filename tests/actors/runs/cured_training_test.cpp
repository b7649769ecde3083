#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/tests/actors/runs/drawn_runs.hpp>
#include <mailgrad/tests/actors/runs/run_checks.hpp>
#include <mailgrad/tests/actors/runs/small_training.hpp>
#include <mailgrad/tests/actors/runs/treated_runs.hpp>

#include <mailgrad/engine/account/report_of_run.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

// Whole runs with cures and with local steps.

namespace mailgrad {
using messaging::kill;

namespace {

using testing::assembled_run;
using testing::assembly;
using testing::drawn_order;
using testing::drawn_orders;
using testing::expect_balanced;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using testing::options_for;
using ::testing::Pointwise;
using testing::small_data;
using testing::small_model;
using testing::trained;
using testing::treated;

constexpr std::uint64_t cured_orders = 500;

class TreatedRun : public testing::DrawnRuns, public ::testing::WithParamInterface<testing::treated_run> {};

TEST_P(TreatedRun, TrainsEveryBatchInEveryOrder) {
  for (drawn_order& order : drawn_orders(cured_orders)) {
    const assembled_run run = assemble(treated(GetParam()));
    deliver(order);
    ASSERT_EQ(run.times_ended(), 1U);
    EXPECT_EQ(run.outcome().how, run_outcome::ending::completed);
    expect_balanced(run);
    const training_report report = report_of(run.outcome());
    EXPECT_EQ(report.steps, 12U);
    EXPECT_EQ(report.samples, 48U);
    if (GetParam().local_steps == 0)
      EXPECT_EQ(report.ledger.produced, 12U);
    else
      EXPECT_LE(report.ledger.produced, 12U);
    for (const float w : run.weights()) ASSERT_TRUE(std::isfinite(w));
  }
}

TEST_P(TreatedRun, EndsWhoeverDies) {
  for (drawn_order& order : drawn_orders(cured_orders)) {
    const assembled_run run = assemble(treated(GetParam()));
    deliver(order, order.below(100));
    kill(run.devices[order.below(run.devices.size())]);
    deliver(order);
    ASSERT_EQ(run.times_ended(), 1U);
    expect_balanced(run);
  }
}

TEST_P(TreatedRun, TrainsEveryBatchOnWorkersThatSpanDevices) {
  assembly a = treated(GetParam());
  a.devices_each = 2;
  a.micro_batches = 2;
  for (drawn_order& order : drawn_orders(cured_orders / 5)) {
    const assembled_run run = assemble(a);
    deliver(order);
    ASSERT_EQ(run.times_ended(), 1U);
    EXPECT_EQ(run.outcome().how, run_outcome::ending::completed) << run.outcome().why;
    expect_balanced(run);
    EXPECT_EQ(report_of(run.outcome()).steps, 12U);
    for (const float w : run.weights()) ASSERT_TRUE(std::isfinite(w));
  }
}

TEST_P(TreatedRun, DoesNotSeeOnHowManyDevicesAWorkerComputes) {
  assembly a = treated(GetParam());
  a.policy = "async";
  a.workers = 1;
  drawn_order order(0);
  const assembled_run one = assemble(a);
  deliver(order);
  a.devices_each = 2;
  a.micro_batches = 3;
  const assembled_run two = assemble(a);
  deliver(order);
  ASSERT_EQ(two.times_ended(), 1U);
  ASSERT_EQ(two.outcome().how, run_outcome::ending::completed) << two.outcome().why;
  EXPECT_THAT(two.weights(), Pointwise(FloatNear(1e-5F), one.weights()));
}

INSTANTIATE_TEST_SUITE_P(EveryCure, TreatedRun, ::testing::ValuesIn(testing::treated_runs),
                         testing::name_of_treated);

std::vector<float> weights_of(const training_options& o) {
  training run(small_model(), small_data(), o);
  return {run.parameters().begin(), run.parameters().end()};
}

void expect_near(const std::vector<float>& found, const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t k = 0; k < found.size(); ++k) ASSERT_NEAR(found[k], expected[k], 1e-5) << k;
}

/// A third is guessing. Of the final weights: the last loss of a worker may be an early one, where the other
/// takes most batches.
constexpr double learned = 0.6;

// The mean of what SGD moves each worker is what the mean gradient moves all of them.
TEST(LocalTraining, OfOneStepIsSynchronousSgd) {
  for (const std::uint32_t shards : {1U, 3U}) {
    training_options plain = options_for("sync", 2, "sgd");
    plain.shards = shards;
    training_options local = plain;
    local.local_steps = 1;
    expect_near(weights_of(local), weights_of(plain));
  }
}

TEST(LocalTraining, OfOneWorkerIsSequentialWhateverTheNumberOfSteps) {
  for (const char* optimizer : {"sgd", "momentum", "adam"}) {
    training_options plain = options_for("async", 1, "sgd");
    plain.optimizer = parse_optimizer(optimizer);
    training_options local = plain;
    local.local_steps = 3;
    expect_near(weights_of(local), weights_of(plain));
  }
}

TEST(LocalTraining, AveragesTheModelsOfAllWorkers) {
  training_options o = options_for("sync", 2, "sgd");
  o.local_steps = 4;
  o.epochs = 24;
  const training_report r = trained(o);
  EXPECT_EQ(r.local_steps, 4U);
  EXPECT_EQ(r.outer_optimizer, "sgd");
  EXPECT_EQ(r.ledger.merged, r.ledger.produced);
  EXPECT_LT(r.ledger.produced, r.steps / 3);
  EXPECT_LT(*r.final_loss, 0.85);
  EXPECT_EQ(weights_of(o), weights_of(o)) << "workers in step make the same weights each time";
}

TEST(LocalTraining, TakesAnOuterMomentum) {
  for (const char* outer : {"nesterov:momentum=0.5", "delayed-nesterov:momentum=0.5,period=2"}) {
    training_options o = options_for("async", 2, "sgd");
    o.epochs = 8;
    o.local_steps = 2;
    o.outer = parse_optimizer(outer);
    o.outer.learning_rate = 0.7;
    const training_report r = trained(o);
    EXPECT_GT(*r.test_accuracy, learned) << outer;
  }
}

std::vector<float> weights_after(training_options o, std::uint64_t steps) {
  o.steps = steps;
  return weights_of(o);
}

// x the worker's weights, w the shard's, g by plain SGD on the same batches: x1 = w0 - eta g(w0);  x2 = x1 -
// eta g(x1) - A (x1 - w0);  w1 = w0 + A (x1 - w0);  at the end w2 = w1 + A (x2 - w1)
TEST(ElasticTraining, TakesTheGradientWhereTheExchangeBegins) {
  constexpr float pull = 0.25F;
  for (const char* policy : {"async", "sync"}) {
    const training_options plain = options_for(policy, 1, "sgd");
    const training run(small_model(), small_data(), plain);
    const std::vector<float> w0 = testing::first_values(run.layout(), plain.seed);
    const std::vector<float> x1 = weights_after(plain, 1);
    const std::vector<float> from_x1 = weights_after(plain, 2); // x1 - eta g(x1)
    std::vector<float> expected;
    for (std::size_t k = 0; k < w0.size(); ++k) {
      const float w1 = w0[k] + pull * (x1[k] - w0[k]);
      const float x2 = from_x1[k] - pull * (x1[k] - w0[k]);
      expected.push_back(w1 + pull * (x2 - w1));
    }
    training_options elastic = plain;
    elastic.cure = "easgd:0.25";
    elastic.local_steps = 1;
    expect_near(weights_after(elastic, 2), expected);
  }
}

TEST(ElasticTraining, LearnsUnderABarrierAndAcrossSwitches) {
  for (const char* policy : {"sync", "async, sync@8, async@16"}) {
    training_options o = options_for(policy, 2, "sgd");
    o.cure = "easgd";
    o.local_steps = 2;
    o.epochs = 20;
    const training_report r = trained(o);
    EXPECT_EQ(r.ended, "completed") << r.why;
    EXPECT_GT(*r.test_accuracy, learned) << policy;
    EXPECT_EQ(r.steps, 120U);
  }
}

std::string refusal(const training_options& o, std::shared_ptr<const data_split> data = small_data()) {
  try {
    const training run(small_model(), std::move(data), o);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "taken";
}

TEST(LocalTraining, IsRefusedWhereItMakesNoSense) {
  training_options o = options_for("hogwild", 2, "sgd");
  o.local_steps = 2;
  EXPECT_THAT(refusal(o), HasSubstr("under hogwild workers write into one block"));
  o = options_for("async", 2, "sgd");
  o.local_steps = 2;
  EXPECT_THAT(refusal(o, testing::sparse_data()), HasSubstr("comes in rows"));
  o.local_steps = 0;
  o.cure = "dc-asgd";
  EXPECT_THAT(refusal(o, testing::sparse_data()), HasSubstr("cure 'dc-asgd'"));
}

} // namespace
} // namespace mailgrad
