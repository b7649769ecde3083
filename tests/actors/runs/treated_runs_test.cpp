#include <mailgrad/actors/run/run_crew.hpp>
#include <mailgrad/tests/actors/runs/drawn_runs.hpp>
#include <mailgrad/tests/actors/runs/small_training.hpp>
#include <mailgrad/tests/engine/worker/late_runner.hpp>

#include <cmath>
#include <thread>

// Whole runs with cures and with local steps, and such whose steps end late.

namespace mailgrad::testing {
namespace {

using messaging::kill, messaging::send_anonymously;
using ::testing::FloatNear, ::testing::HasSubstr, ::testing::Pointwise, ::testing::ThrowsMessage;

constexpr std::uint64_t cured_orders = 500;

void expect_near(const std::vector<float>& found, const std::vector<float>& expected) {
  EXPECT_THAT(found, Pointwise(FloatNear(1e-5F), expected));
}

class TreatedRun : public DrawnRuns, public ::testing::WithParamInterface<treated_run> {
protected:
  static void expect_all_trained(const assembled_run& run) {
    expect_completed(run);
    const training_report report = report_of(run.outcome());
    EXPECT_EQ(report.steps, 12U);
    EXPECT_EQ(report.samples, 48U);
    EXPECT_LE(report.ledger.produced, 12U);
    EXPECT_TRUE(GetParam().local_steps > 0 || report.ledger.produced == 12);
    for (const float w : run.weights()) ASSERT_TRUE(std::isfinite(w));
  }
};

TEST_P(TreatedRun, TrainsEveryBatchInEveryOrder) {
  in_orders(drawn_orders(cured_orders), treated(GetParam()), expect_all_trained);
}

TEST_P(TreatedRun, EndsWhoeverDies) {
  const auto kill_one = [&](const assembled_run& run, drawn_order& order) {
    deliver(order, order.below(100));
    kill(run.devices[order.below(run.devices.size())]);
  };
  in_orders(drawn_orders(cured_orders), treated(GetParam()), kill_one, expect_balanced);
}

TEST_P(TreatedRun, TrainsEveryBatchOnWorkersThatSpanDevices) {
  assembly a = treated(GetParam());
  a.devices_each = 2;
  a.micro_batches = 2;
  in_orders(drawn_orders(cured_orders / 5), a, expect_all_trained);
}

TEST_P(TreatedRun, DoesNotSeeOnHowManyDevicesAWorkerComputes) {
  assembly a = treated(GetParam());
  a.policy = "async";
  a.workers = 1;
  const std::vector<float> on_one = drawn_weights(a);
  a.devices_each = 2;
  a.micro_batches = 3;
  expect_near(drawn_weights(a), on_one);
}

INSTANTIATE_TEST_SUITE_P(EveryCure, TreatedRun, ::testing::ValuesIn(treated_runs), name_of_treated);

/// A third is guessing. Of the final weights: the last loss of a worker may be an early one, where the other
/// takes most batches.
constexpr double learned = 0.6;

// The mean of what SGD moves each worker is what the mean gradient moves all of them.
TEST(LocalTraining, OfOneStepIsSynchronousSgd) {
  for (const std::uint32_t shards : {1U, 3U}) {
    const training_options plain = options_for("sync", 2, {.optimizer = "sgd", .shards = shards});
    training_options local = plain;
    local.local_steps = 1;
    expect_near(weights_of(local), weights_of(plain));
  }
}

TEST(LocalTraining, OfOneWorkerIsSequentialWhateverTheNumberOfSteps) {
  for (const char* optimizer : {"sgd", "momentum", "adam"}) {
    const training_options plain = options_for("async", 1, {.optimizer = optimizer, .rate = {}});
    training_options local = plain;
    local.local_steps = 3;
    expect_near(weights_of(local), weights_of(plain));
  }
}

TEST(LocalTraining, AveragesTheModelsOfAllWorkers) {
  const training_options o = options_for("sync", 2, {.optimizer = "sgd", .local_steps = 4, .epochs = 24});
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
    training_options o = options_for("async", 2, {.optimizer = "sgd", .local_steps = 2, .epochs = 8});
    o.outer = parse_optimizer(outer);
    o.outer.learning_rate = 0.7;
    EXPECT_GT(*trained(o).test_accuracy, learned) << outer;
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
    const training_options plain = options_for(policy, 1, {.optimizer = "sgd"});
    const training run(small_model(), small_data(), plain);
    const std::vector<float> w0 = first_values(run.layout(), plain.seed);
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
    const training_report r = completed(
        options_for(policy, 2, {.optimizer = "sgd", .cure = "easgd", .local_steps = 2, .epochs = 20}));
    EXPECT_GT(*r.test_accuracy, learned) << policy;
    EXPECT_EQ(r.steps, 120U);
  }
}

TEST(LocalTraining, IsRefusedWhereItMakesNoSense) {
  const auto refused = [](const training_options& o, const std::shared_ptr<const data_split>& data,
                          const char* why) {
    EXPECT_THAT([&] { const training run(small_model(), data, o); },
                ThrowsMessage<std::invalid_argument>(HasSubstr(why)));
  };
  training_options o = options_for("hogwild", 2, {.optimizer = "sgd", .local_steps = 2});
  refused(o, small_data(), "under hogwild workers write into one block");
  o.policy = "async";
  refused(o, sparse_data(), "comes in rows");
  o.local_steps = 0;
  o.cure = "dc-asgd";
  refused(o, sparse_data(), "cure 'dc-asgd'");
}

// ---- steps that end when they like, as on a GPU: in orders drawn from a seed, and on threads that are no actor's

constexpr std::uint64_t late_orders = 300;

struct late_case {
  const char* policy;
  std::uint64_t local_steps = 0;
  std::uint64_t sample_gap = 0;
};

assembly with_late_steps(const late_case& c, late_steps& steps) {
  assembly a{.policy = c.policy, .local_steps = c.local_steps, .sample_gap = c.sample_gap};
  if (c.local_steps > 0) a.optimizer = "sgd";
  a.runner = [&steps](rank, std::shared_ptr<step_runner> own) {
    return std::make_shared<late_runner>(std::move(own), steps);
  };
  return a;
}

std::string name_of_late(const ::testing::TestParamInfo<late_case>& info) {
  const auto& [policy, local_steps, sample_gap] = info.param;
  return test_name(std::string(policy) + (local_steps > 0 ? " local" : "") +
                   (sample_gap > 0 ? " sampled" : ""));
}

class LateSteps : public DrawnRuns, public ::testing::WithParamInterface<late_case> {
protected:
  /// Has `body` use the same run on threads, three of which end its steps, and kills its actors.
  template <class Body>
  void on_threads(std::uint64_t seed, Body body) {
    late_steps steps(seed);
    const late_threads threads(steps, 3);
    run_home home({{device_kind::cpu, 0}, {device_kind::cpu, 1}});
    const assembled_run run(home.system(), with_late_steps(GetParam(), steps), data_,
                            std::make_shared<machine_time>());
    body(run);
    run.kill_all();
    home.wait();
  }
};

TEST_P(LateSteps, EndOnceWithABalancedLedgerAndEveryBatchTrained) {
  for (drawn_order& order : drawn_orders(late_orders)) {
    late_steps steps(order.seed());
    const assembled_run run = assemble(with_late_steps(GetParam(), steps));
    play(order, steps);
    ASSERT_EQ(run.times_ended(), 1U);
    expect_completed(run);
    EXPECT_EQ(report_of(run.outcome(), run.written()).samples, 48U);
  }
}

TEST_P(LateSteps, EndWhenTheyLikeAfterTheRunWasStopped) {
  for (drawn_order& order : drawn_orders(late_orders)) {
    late_steps steps(order.seed());
    const assembled_run run = assemble(with_late_steps(GetParam(), steps));
    play(order, steps, order.below(150));
    for (const caf::actor& device : run.devices) send_anonymously(device, give_up{});
    deliver(order);
    EXPECT_EQ(run.times_ended(), 1U) << "nobody waits for a step that nobody wants";
    EXPECT_LE(steps.under_way(), 3U);
    while (steps.end_one()) {
    }
    system_.run();
    expect_balanced(run);
  }
}

TEST_P(LateSteps, EndOnThreadsOfTheirOwn) {
  for (const drawn_order& order : drawn_orders(5)) on_threads(order.seed(), expect_completed);
}

/// The actors are killed under the steps that they have begun.
TEST_P(LateSteps, EndOnThreadsOfTheirOwnAfterACrash) {
  for (const drawn_order& order : drawn_orders(20))
    on_threads(order.seed(), [&](const assembled_run& run) {
      for (std::uint64_t spin = 0; spin < order.seed() * 1000 && run.times_ended() == 0; ++spin)
        std::this_thread::yield();
    });
}

INSTANTIATE_TEST_SUITE_P(EveryWayOfAGradient, LateSteps,
                         ::testing::Values(late_case{"async"}, late_case{"sync"}, late_case{"hogwild"},
                                           late_case{"ssp:1"}, late_case{"async, hogwild@4, sync@8"},
                                           late_case{"async", 2}, late_case{"async", 0, 2}),
                         name_of_late);

std::vector<float> weights_with(const assembly& a, late_steps* steps) {
  deterministic_system system;
  const assembled_run run(system.actors(), a, small_data(), std::make_shared<manual_time>());
  while (system.step() || (steps && steps->end_one())) {
  }
  return run.weights();
}

class LateStepsOfOneWorker : public ::testing::TestWithParam<const char*> {};

TEST_P(LateStepsOfOneWorker, MakeTheSameWeights) {
  late_steps steps(3);
  assembly late = with_late_steps({GetParam()}, steps);
  late.workers = 1;
  assembly at_once = late;
  at_once.runner = {};
  EXPECT_EQ(weights_with(late, &steps), weights_with(at_once, nullptr));
}

INSTANTIATE_TEST_SUITE_P(Policies, LateStepsOfOneWorker, ::testing::Values("async", "sync", "hogwild"),
                         name_of_policy);

} // namespace
} // namespace mailgrad::testing
