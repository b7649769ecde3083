#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/tests/actors/runs/drawn_runs.hpp>
#include <mailgrad/tests/actors/runs/run_checks.hpp>
#include <mailgrad/tests/engine/worker/late_runner.hpp>
#include <mailgrad/tests/support/test_name.hpp>

#include <mailgrad/actors/run/run_crew.hpp>

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

// Whole runs whose steps end when they like, as on a GPU: in orders drawn from a seed, and on threads that
// are no actor's.

namespace mailgrad {
using messaging::send_anonymously;

namespace {

using testing::assembled_run;
using testing::assembly;
using testing::drawn_order;
using testing::drawn_orders;
using testing::late_runner;
using testing::late_steps;
using testing::late_threads;

constexpr std::uint64_t late_orders = 300;

struct late_case {
  const char* policy;
  std::uint64_t local_steps = 0;
  std::uint64_t sample_gap = 0;
};

assembly with_late_steps(const late_case& c, late_steps& steps) {
  assembly a;
  a.policy = c.policy;
  a.local_steps = c.local_steps;
  a.sample_gap = c.sample_gap;
  if (c.local_steps > 0) a.optimizer = "sgd";
  a.runner = [&steps](rank, std::shared_ptr<step_runner> own) {
    return std::make_shared<late_runner>(std::move(own), steps);
  };
  return a;
}

std::string name_of_late(const ::testing::TestParamInfo<late_case>& info) {
  return testing::test_name(std::string(info.param.policy) + (info.param.local_steps > 0 ? " local" : "") +
                            (info.param.sample_gap > 0 ? " sampled" : ""));
}

class LateSteps : public testing::DrawnRuns, public ::testing::WithParamInterface<late_case> {
protected:
  /// Delivers messages and ends steps in a drawn order until neither is left; at most `most` of them.
  void play(drawn_order& order, late_steps& steps,
            std::size_t most = testing::deterministic_system::endless) {
    for (std::size_t played = 0; played < most; ++played) {
      const bool step_first = order.below(4) == 0;
      if (step_first && steps.end_one()) continue;
      if (deliver(order, 1) == 0 && !steps.end_one()) return;
    }
  }

  const std::shared_ptr<const time_source> clock_ = std::make_shared<machine_time>(); ///< of real threads
};

TEST_P(LateSteps, EndOnceWithABalancedLedgerAndEveryBatchTrained) {
  for (drawn_order& order : drawn_orders(late_orders)) {
    late_steps steps(order.seed());
    const assembled_run run = assemble(with_late_steps(GetParam(), steps));
    play(order, steps);
    ASSERT_EQ(run.times_ended(), 1U);
    EXPECT_EQ(run.outcome().how, run_outcome::ending::completed);
    testing::expect_balanced(run);
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
    const std::size_t left = steps.under_way();
    while (steps.end_one()) {
    }
    system_.run();
    EXPECT_LE(left, 3U);
    testing::expect_balanced(run);
  }
}

TEST_P(LateSteps, EndOnThreadsOfTheirOwn) {
  for (const drawn_order& order : drawn_orders(5)) {
    late_steps steps(order.seed());
    const late_threads threads(steps, 3);
    run_home home({{device_kind::cpu, 0}, {device_kind::cpu, 1}});
    const assembled_run run(home.system(), with_late_steps(GetParam(), steps), data_, clock_);
    EXPECT_EQ(run.outcome().how, run_outcome::ending::completed);
    testing::expect_balanced(run);
    run.kill_all();
    home.wait();
  }
}

/// The actors are killed under the steps that they have begun.
TEST_P(LateSteps, EndOnThreadsOfTheirOwnAfterACrash) {
  for (const drawn_order& order : drawn_orders(20)) {
    late_steps steps(order.seed());
    const late_threads threads(steps, 3);
    run_home home({{device_kind::cpu, 0}, {device_kind::cpu, 1}});
    const assembled_run run(home.system(), with_late_steps(GetParam(), steps), data_, clock_);
    for (std::uint64_t spin = 0; spin < order.seed() * 1000 && run.times_ended() == 0; ++spin)
      std::this_thread::yield();
    run.kill_all();
    home.wait();
  }
}

INSTANTIATE_TEST_SUITE_P(EveryWayOfAGradient, LateSteps,
                         ::testing::Values(late_case{"async"}, late_case{"sync"}, late_case{"hogwild"},
                                           late_case{"ssp:1"}, late_case{"async, hogwild@4, sync@8"},
                                           late_case{"async", 2}, late_case{"async", 0, 2}),
                         name_of_late);

std::vector<float> weights_with(const assembly& a, late_steps* steps) {
  testing::deterministic_system system;
  const assembled_run run(system.actors(), a, testing::small_data(),
                          std::make_shared<testing::manual_time>());
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
                         [](const auto& policy) { return std::string(policy.param); });

} // namespace
} // namespace mailgrad
