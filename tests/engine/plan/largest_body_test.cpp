#include <mailgrad/tests/engine/small_problem.hpp>

#include <mailgrad/engine/plan/run_plan.hpp>
#include <mailgrad/graph/models/built_in.hpp>

#include <gtest/gtest.h>

namespace mailgrad {
namespace {

using testing::small_data;

/// A model of 4 hidden units for each of so many thousands.
run_plan plan_of(std::size_t thousands, bool keeps = false, const std::string& policy = "async") {
  training_options o;
  o.devices = {{device_kind::cpu, 0}, {device_kind::cpu, 0}};
  o.batch = 8;
  o.shards = 2;
  o.policy = policy;
  if (keeps) o.checkpoints.folder = "checkpoints";
  return plan_run(*built_in_model("mlp:hidden=1000x" + std::to_string(1000 * thousands)), small_data(), o);
}

TEST(LargestBody, IsThatOfTheRunAndNotOfAnyRun) {
  constexpr std::uint64_t room = 16 << 20, mega = 1 << 20;
  EXPECT_GE(largest_exchange(*plan_of(1).layout, 1), 3 * (2 * mega) - mega / 2 + room);
  EXPECT_GE(largest_exchange(*plan_of(1).layout, 3), 5 * (2 * mega) - mega + room);
  EXPECT_LT(largest_body(plan_of(1), 0), 8 * mega + room);
  EXPECT_GT(largest_body(plan_of(8), 0), 40 * mega + room);
}

TEST(LargestBody, HasRoomForTheShardsOfAHost) {
  const run_plan plan = plan_of(8);
  const std::uint64_t whole = plan.layout->size() * sizeof(float);
  EXPECT_GE(largest_body(plan, 1), whole);
}

TEST(LargestBody, HasRoomForPartsOfCheckpoints) {
  const run_plan plan = plan_of(1, true);
  const std::uint64_t whole = plan.layout->size() * sizeof(float);
  EXPECT_GE(largest_body(plan, 0), 6 * whole);
  // Two workers, each with a gradient that waits and the weights that it was computed from.
  EXPECT_GE(largest_body(plan, 2), largest_body(plan_of(1), 2) + 4 * whole);
}

/// Those of a queue wait one by one, however few workers there are.
TEST(LargestBody, HasRoomForTheLongestQueue) {
  const std::uint64_t whole = plan_of(1).layout->size() * sizeof(float);
  const std::uint64_t without = largest_body(plan_of(1, true), 1);
  EXPECT_GE(largest_body(plan_of(1, true, "async, queue:2,64@3"), 1), without + 63 * whole);
}

/// Each device of a worker has a gradient of its own that may wait.
TEST(LargestBody, HasRoomForTheGradientsOfEveryDeviceInThem) {
  run_plan plan = plan_of(1, true);
  const std::uint64_t whole = plan.layout->size() * sizeof(float);
  const std::uint64_t before = largest_body(plan, 2);
  plan.options.workers = plan.workers();
  plan.options.devices.resize(std::size_t{16} * plan.workers(), {device_kind::cpu, 0});
  ASSERT_EQ(plan.devices_per_worker(), 16U);
  EXPECT_GE(largest_body(plan, 2), before + 15 * whole);
}

} // namespace
} // namespace mailgrad
