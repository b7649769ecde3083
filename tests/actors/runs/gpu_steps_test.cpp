#include <mailgrad/tests/actors/runs/gpu_cases.hpp>
#include <mailgrad/tests/actors/runs/run_checks.hpp>

#include <algorithm>
#include <memory>
#include <string_view>
#include <vector>

// Whole runs whose workers compute on streams of the simulated GPU, which runs what is queued as late as it
// may, or in drawn orders. No call may wait for it. Messages arrive and events are asked for in drawn orders.

namespace mailgrad {
namespace {

using messaging::send_anonymously;
using testing::asked_watch;
using testing::assembled_run;
using testing::assembly;
using testing::assembly_of;
using testing::automatic;
using testing::drawn_order;
using testing::gpu_case;
using testing::GpuSteps;
using testing::name_of;
using testing::on_gpu;
using testing::orders_on_gpu;
using testing::placed;
using testing::with_every_policy;

constexpr std::uint64_t step_orders = 16; // scripts/endurance tries 700, in four tests of each policy

/// Workers tell what they measure by the clock, which goes on by milliseconds for a rule that judges it.
constexpr std::uint64_t tick_of(std::string_view policy) {
  return policy.starts_with("auto") ? 20'000'000 : 0;
}

TEST_P(GpuSteps, EndOnceWithABalancedLedgerAndEveryBatchTrained) {
  const auto make = [&](const auto& watch) {
    return placed(GetParam(), assembly_of(GetParam()), data_, watch);
  };
  let_time_pass(tick_of(GetParam().policy));
  in_every_order(step_orders, make, [](const assembled_run& run) {
    EXPECT_EQ(run.outcome().how, run_outcome::ending::completed) << run.outcome().why;
    EXPECT_EQ(std::ranges::count(run.outcome().lost, true), 0)
        << "a worker has failed, and others did its work";
    testing::expect_balanced(run);
    EXPECT_EQ(report_of(run.outcome(), run.written()).samples, 48U);
  });
}

TEST_P(GpuSteps, EndWhenTheyLikeAfterTheRunWasStopped) {
  let_time_pass(tick_of(GetParam().policy));
  for (drawn_order& order : orders_on_gpu(step_orders)) {
    set_up();
    const auto watch = std::make_shared<asked_watch>();
    {
      const assembled_run run = assemble(placed(GetParam(), assembly_of(GetParam()), data_, watch));
      play(order, *watch, order.below(150));
      for (const caf::actor& device : run.devices) send_anonymously(device, give_up{});
      deliver(order);
      // The report waits for weights that come from the GPU, but nobody waits for a step that nobody wants.
      while (GetParam().weights_there && run.times_ended() == 0 && watch->watched() > 0) {
        watch->ask();
        deliver(order);
      }
      ASSERT_EQ(run.times_ended(), 1U);
      while (watch->watched() > 0) watch->ask();
      system_.run();
      testing::expect_balanced(run);
    }
    system_.run();
  }
}

INSTANTIATE_TEST_SUITE_P(
    EveryWayOfAGradient, GpuSteps,
    ::testing::Values(
        gpu_case{"hogwild"}, gpu_case{"async, hogwild@4, sync@8"}, gpu_case{"async", 2},
        gpu_case{"async", 0, 2}, gpu_case{"async", 0, 0, "dana-zero"},
        gpu_case{"async", 0, 0, "none", true, 0.5}, gpu_case{"async", 0, 0, "none", true, 0, 0},
        gpu_case{"sync", 0, 0, "none", true, 0, 0}, gpu_case{"ssp:1", 0, 0, "dc-asgd-a", true},
        gpu_case{"async, sync@4, ssp:2@8", 0, 0, "none", true}, gpu_case{"async", 0, 0, "dana-zero", true},
        gpu_case{"async", 2, 0, "none", true}, gpu_case{"async", 2, 0, "none", true, 0, 0},
        gpu_case{"async", 2, 0, "none", true, 0.5}, gpu_case{"sync", 3, 0, "none", true},
        gpu_case{"async", 0, 2, "none", true}, gpu_case{"async, sync@4", 0, 1, "none", true},
        gpu_case{"async", 2, 0, "easgd", true}, gpu_case{"async, ssp:2@8", 2, 0, "none", true},
        gpu_case{"async, sync@8", 2, 0, "easgd", true}, gpu_case{"async", 0, 0, "none", true, 0, 1, true},
        gpu_case{"sync", 0, 0, "none", true, 0.5, 1, true}, gpu_case{"async", 0, 2, "none", true, 0, 1, true},
        gpu_case{"async", 0, 0, "dana-zero", true, 0, 1, true},
        gpu_case{"async, sync@8", 2, 0, "easgd", true, 0, 1, true}),
    name_of);

/// No rule's switches are repeated, so that of `auto` is among these alone.
std::vector<gpu_case> with_auto_too() {
  std::vector<gpu_case> all = with_every_policy();
  for (const bool there : {false, true}) all.push_back({.policy = automatic, .weights_there = there});
  return all;
}

INSTANTIATE_TEST_SUITE_P(EveryPolicy, GpuSteps, ::testing::ValuesIn(with_auto_too()), name_of);

TEST_F(GpuSteps, SwitchByARuleToAndFro) {
  let_time_pass(tick_of(automatic));
  for (const bool there : {false, true}) {
    std::size_t to_async = 0, to_sync = 0;
    const gpu_case c{.policy = automatic, .weights_there = there};
    const auto make = [&](const auto& watch) {
      assembly a = assembly_of(c);
      a.batches = 60;
      return placed(c, a, data_, watch);
    };
    in_every_order(step_orders / 2, make, [&](const assembled_run& run) {
      EXPECT_EQ(run.outcome().how, run_outcome::ending::completed) << run.outcome().why;
      testing::expect_balanced(run);
      EXPECT_EQ(report_of(run.outcome(), run.written()).samples, 240U);
      to_async += std::ranges::count(run.outcome().switches, "async", &policy_switch::to);
      to_sync += std::ranges::count(run.outcome().switches, "sync", &policy_switch::to);
    });
    if (orders_on_gpu(step_orders / 2).count() < 4) continue; // too few for either
    EXPECT_GT(to_async, 0U) << there;
    EXPECT_GT(to_sync, 0U) << there;
  }
}

#ifndef __SANITIZE_THREAD__ // whose reports of that race would be right
INSTANTIATE_TEST_SUITE_P(OfHogwildsRace, GpuSteps,
                         ::testing::Values(gpu_case{"hogwild", 0, 0, "none", true},
                                           gpu_case{"hogwild", 0, 0, "none", true, 0.5},
                                           gpu_case{"async, hogwild@4, sync@8", 0, 0, "none", true},
                                           gpu_case{"hogwild, async@6", 0, 0, "none", true}),
                         name_of);
#endif

class GpuSync : public GpuSteps {};

/// In `sync` the order makes no difference, so neither may a step that runs before the copy of its batch, nor
/// a batch that comes while the step before still reads.
TEST_F(GpuSync, ComesToTheWeightsOfTheProcessorsInEveryOrder) {
  assembly a;
  a.policy = "sync";
  a.batches = 36;
  const auto expected = finish(a, 1);
  ASSERT_TRUE(expected);
  expect_weights_in_every_order(expected->weights, step_orders,
                                [&](const auto& watch) { return on_gpu(a, data_, watch); });
}

/// Nor may what a worker or a shard queues before that has run which it reads.
TEST_F(GpuSync, WithWeightsThereComesToTheWeightsOfTheProcessorsInEveryOrder) {
  std::vector<gpu_case> cases{{"sync", 0, 0, "none", true},
                              {"sync", 3, 0, "none", true},
                              {"sync", 2, 0, "easgd", true},
                              {"sync", 0, 0, "none", true, 0, 1, true},
                              {"sync", 2, 0, "easgd", true, 0, 1, true}};
#ifndef __SANITIZE_THREAD__ // whose reports of hogwild's race would be right
  cases.push_back({"async, hogwild@8, async@16", 0, 0, "none", true}); // of one worker, which loses no update
#endif
  for (const gpu_case& c : cases) {
    SCOPED_TRACE(name_of(::testing::TestParamInfo<gpu_case>(c, 0)));
    assembly a = assembly_of(c);
    if (std::string_view(c.policy) != "sync") {
      a.workers = 1;
      a.optimizer = "sgd"; // without a state, which would tell who made how many of the updates
    }
    a.batches = 24;
    const auto expected = finish(a, 1);
    ASSERT_TRUE(expected);
    expect_weights_in_every_order(expected->weights, step_orders / 5,
                                  [&](const auto& watch) { return placed(c, a, data_, watch); });
  }
}

} // namespace
} // namespace mailgrad
