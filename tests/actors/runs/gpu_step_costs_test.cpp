#include <mailgrad/demos/custom_policy.hpp>
#include <mailgrad/tests/actors/runs/gpu_cases.hpp>
#include <mailgrad/tests/actors/runs/run_checks.hpp>
#include <mailgrad/tests/actors/runs/spoiling_runner.hpp>

#include <gmock/gmock.h>

#include <memory>
#include <optional>
#include <utility>

// What steps on the simulated GPU copy, make and queue, and how runs end of which a step or the GPU fails.

namespace mailgrad {
namespace {

using ::testing::AnyOf;
using testing::asked_watch;
using testing::assembled_run;
using testing::assembly;
using testing::assembly_of;
using testing::drawn_order;
using testing::gpu_case;
using testing::GpuSteps;
using ::testing::HasSubstr;
using testing::name_of;
using testing::orders_on_gpu;
using testing::placed;

constexpr std::uint64_t failure_orders = 16; // scripts/endurance tries more

class GpuCopies : public GpuSteps {};

/// Only batches cross the bus in a step if the weights lie on the GPU, however gradients come to be
/// updates. The records of steps are written by kernels.
TEST_P(GpuCopies, WithWeightsThereAreOfTheBatchAlone) {
  const auto copied = [&](std::uint64_t batches, std::uint32_t shards) {
    set_up();
    assembly a = assembly_of(GetParam());
    a.batches = batches;
    a.shards = shards;
    EXPECT_TRUE(finish(placed(GetParam(), a, data_), 3));
    return simulated_gpu::count();
  };
  const auto aligned_to_lines = [](std::size_t bytes) { return (bytes + 63) / 64 * 64; };
  const std::size_t labels = 4 * sizeof(std::int32_t);
  const std::size_t features = 4 * data_->train.sample_dims().size() * sizeof(float);
  for (const std::uint32_t shards : {1U, 3U}) {
    const simulated_gpu::counters few = copied(6, shards), many = copied(12, shards);
    EXPECT_EQ(many.bytes_to_gpu - few.bytes_to_gpu,
              6 * (aligned_to_lines(features) + aligned_to_lines(labels)));
    EXPECT_EQ(many.bytes_to_host, few.bytes_to_host);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Ways, GpuCopies,
    ::testing::Values(gpu_case{"async", 0, 0, "none", true}, gpu_case{"async", 0, 0, "none", true, 0, 0},
                      gpu_case{"sync", 0, 0, "none", true}, gpu_case{"k-batch-async:2", 0, 0, "none", true},
                      gpu_case{"ringleader", 0, 0, "none", true}, gpu_case{"async", 0, 0, "dc-asgd-a", true},
                      gpu_case{"async", 0, 0, "dana-zero", true}, gpu_case{"async", 2, 0, "none", true},
                      gpu_case{"sync", 2, 0, "easgd", true}),
    name_of);

#ifndef __SANITIZE_THREAD__ // whose reports of that race would be right
INSTANTIATE_TEST_SUITE_P(OfHogwildsRace, GpuCopies,
                         ::testing::Values(gpu_case{"hogwild", 0, 0, "none", true}), name_of);
#endif

/// A step reads the weights by one copy within the GPU.
TEST_F(GpuSteps, WithWeightsThereReadThemOnce) {
  const auto copied = [&](std::uint64_t batches) {
    set_up();
    assembly a;
    a.batches = batches;
    EXPECT_TRUE(finish(placed({.policy = "async", .weights_there = true}, a, data_), 3));
    return simulated_gpu::count().bytes_on_gpu;
  };
  const std::size_t weights = testing::plan_of({}, data_).layout->size() * sizeof(float);
  EXPECT_EQ(copied(12) - copied(6), 6 * weights);
}

/// A step that a graph runs makes no event, takes no memory, and asks the runtime for the same each time.
TEST_F(GpuSteps, WithWeightsThereMakeNothingNew) {
  const auto counted = [&](std::uint64_t batches) {
    system_.run(); // until the run before has let go of its memory
    set_up();
    assembly a;
    a.workers = 1;
    a.batches = batches;
    a.shards = 1;
    EXPECT_TRUE(finish(placed({.policy = "async", .weights_there = true}, a, data_), 3));
    return simulated_gpu::count();
  };
  const simulated_gpu::counters few = counted(60), many = counted(80);
  EXPECT_EQ(many.events, few.events);
  EXPECT_EQ(many.allocations, few.allocations);
  EXPECT_EQ(many.waits, few.waits) << "a step releases memory";
  EXPECT_EQ(many.launches - few.launches, 20U * 3) << "the step's number, its graph, the update";
  EXPECT_LE(many.calls - few.calls, 20U * 14);
}

/// The steps behind the one that fails may have begun, and their gradients may have been applied.
TEST_F(GpuSteps, WithWeightsThereNameTheStepThatFails) {
  for (drawn_order& order : orders_on_gpu(failure_orders)) {
    set_up();
    const auto watch = std::make_shared<asked_watch>();
    {
      assembly a = placed({.policy = "async", .weights_there = true}, {}, data_, watch);
      a.workers = 1;
      a.runner = [](rank, std::shared_ptr<step_runner> own) {
        return std::make_shared<testing::spoiling_runner>(std::move(own), 4);
      };
      const assembled_run run = assemble(a);
      forbid_waits(order);
      play(order, *watch);
      set_up();
      ASSERT_EQ(run.times_ended(), 1U);
      EXPECT_EQ(run.outcome().how, run_outcome::ending::failed);
      EXPECT_THAT(run.outcome().why, HasSubstr("step 5: "));
      EXPECT_THAT(run.outcome().why, HasSubstr("label 99"));
      testing::expect_balanced(run);
    }
    system_.run();
  }
}

/// A worker alone has at most one step under way besides the one that its stream runs, and it has that one.
TEST_F(GpuSteps, WithWeightsThereRunAheadByOneStep) {
  for (const std::uint64_t ahead : {0U, 1U}) {
    set_up({}, 1000); // no step ends as long as this test asks
    const auto watch = std::make_shared<asked_watch>();
    assembly a = placed({.policy = "async", .weights_there = true}, {}, data_, watch);
    a.workers = 1;
    a.run_ahead = ahead;
    {
      const assembled_run run = assemble(a);
      drawn_order order(ahead);
      for (std::size_t ended = 0; ended < 4; ++ended) {
        deliver(order);
        EXPECT_EQ(watch->watched(), 1 + ahead) << ended;
        while (watch->ask() == 0) {
        }
      }
      play(order, *watch);
    }
    system_.run();
  }
}

/// Their gradients come when they are computed, unless the options say otherwise.
TEST_F(GpuSteps, WithWeightsThereDoNotRunAheadWhereThePolicyLooksAtWhatComesFirst) {
  const auto steps_under_way = [&](const char* policy, std::optional<std::uint64_t> asked) {
    set_up({}, 1000); // no step ends as long as this test asks
    const auto watch = std::make_shared<asked_watch>();
    assembly a = placed({.policy = policy, .weights_there = true}, {}, data_, watch);
    a.policy = policy;
    a.workers = 1;
    a.run_ahead = asked;
    std::size_t found = 0;
    {
      const assembled_run run = assemble(a);
      drawn_order order(1);
      deliver(order);
      found = watch->watched();
      play(order, *watch);
    }
    system_.run();
    return found;
  };
  for (const char* policy : {"async", "sync", "ssp:1", "async, sync@4"})
    EXPECT_EQ(steps_under_way(policy, {}), 2U) << policy;
  for (const char* policy :
       {"quorum:1,grace=0.5", "backup:0", "k-async:1", "k-batch-async:1", "k-batch-sync:1", "dssp:1,4",
        "auto", "ringmaster:4", "ringleader", "rennala:1", "malenia:1", "queue:1,4", "async, k-async:1@4"})
    EXPECT_EQ(steps_under_way(policy, {}), 1U) << policy;
  EXPECT_EQ(steps_under_way(custom_policy<fair_turns>("1").c_str(), {}), 1U) << "it may look at anything";
  EXPECT_EQ(steps_under_way("k-async:1", 1), 2U) << "it was asked for";
  EXPECT_EQ(steps_under_way("async", 0), 1U);
}

class GpuFaultsInRuns : public GpuSteps {};

/// The GPU is lost at each call in turn.
TEST_P(GpuFaultsInRuns, EndTheRunInOrderAtEveryCall) {
  std::size_t failed = 0;
  for (std::uint64_t n = 1; n < 400; n += 7) {
    set_up();
    const auto watch = std::make_shared<asked_watch>();
    drawn_order order(n);
    {
      const assembled_run run = assemble(placed(GetParam(), assembly_of(GetParam()), data_, watch));
      set_up({.lost_gpu_at = n});
      play(order, *watch);
      ASSERT_EQ(run.times_ended(), 1U) << n;
      if (run.outcome().how == run_outcome::ending::failed) {
        ++failed;
        EXPECT_THAT(run.outcome().why, AnyOf(HasSubstr("worker"), HasSubstr("shard"))) << n;
      }
      testing::expect_balanced(run);
      set_up();
    }
    system_.run();
  }
  EXPECT_GT(failed, 20U);
}

INSTANTIATE_TEST_SUITE_P(Weights, GpuFaultsInRuns,
                         ::testing::Values(gpu_case{"async"}, gpu_case{"async", 0, 0, "none", true},
                                           gpu_case{"async", 2, 0, "none", true}),
                         name_of);

} // namespace
} // namespace mailgrad
