#include <mailgrad/tests/engine/layouts.hpp>

#include <mailgrad/engine/plan/run_fingerprint.hpp>
#include <mailgrad/engine/plan/run_plan.hpp>
#include <mailgrad/graph/models/built_in.hpp>
#include <mailgrad/graph/models/spanning_models.hpp>
#include <mailgrad/tests/engine/small_problem.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace mailgrad {
namespace {

using ::testing::ElementsAre;
using testing::expect_refused;
using ::testing::IsEmpty;
using testing::small_data;
using testing::small_model;

training_options on_cores(std::uint32_t cores, const std::string& policy = "async") {
  training_options o;
  o.devices.clear();
  for (std::uint32_t c = 0; c < cores; ++c) o.devices.push_back({device_kind::cpu, c});
  o.policy = policy;
  o.batch = 8;
  return o;
}

run_plan planned(training_options o) { return plan_run(small_model(), small_data(), std::move(o)); }

TEST(RunPlan, CountsTheStepsOfAllWorkersTogether) {
  training_options o = on_cores(2);
  o.epochs = 3;
  EXPECT_EQ(planned(o).steps, 3 * small_data()->train.size() / 8);
  o.steps = 11;
  EXPECT_EQ(planned(o).steps, 11U) << "steps come before epochs";
}

TEST(RunPlan, HasShardsUnlessHogwildIsItsOnlyPolicy) {
  training_options o = on_cores(2, "hogwild");
  o.shards = 3;
  const run_plan alone = planned(o);
  EXPECT_TRUE(alone.shares_block());
  EXPECT_FALSE(alone.has_shards());
  EXPECT_EQ(alone.layout->shard_count(), 1U) << "the block is whole";
  o.policy = "hogwild, sync@3";
  const run_plan switching = planned(o);
  EXPECT_TRUE(switching.shares_block());
  EXPECT_TRUE(switching.has_shards());
  EXPECT_EQ(switching.layout->shard_count(), 3U);
}

TEST(RunPlan, HoldsTheFeederAtEachSwitch) {
  EXPECT_THAT(planned(on_cores(1, "async, sync@3, ssp:2@5")).holds, ElementsAre(3, 5));
  EXPECT_THAT(planned(on_cores(1)).holds, IsEmpty());
}

TEST(RunPlan, DealsByRankOnlyIfTheFirstPolicyDoes) {
  EXPECT_EQ(planned(on_cores(2, "sync, async@3")).deal.mode, deal_mode::by_rank);
  EXPECT_EQ(planned(on_cores(2, "async, sync@3")).deal.mode, deal_mode::on_demand);
}

TEST(RunPlan, LetsThreadsThatWouldSleepHelp) {
  EXPECT_EQ(planned(on_cores(1)).update_helpers, 0U);
  EXPECT_EQ(planned(on_cores(3)).update_helpers, 2U);
  training_options one_core = on_cores(1);
  one_core.devices.assign(3, {device_kind::cpu, 0});
  EXPECT_EQ(planned(one_core).update_helpers, 0U) << "three workers share a thread";
}

/// Whatever needs one dense gradient lets a device of the worker add it up.
TEST(RunPlan, AddsUpAtTheShardsWhatNothingElseMustSee) {
  const auto adds_up = [](auto change) {
    training_options o = on_cores(2);
    o.workers = 1;
    change(o);
    return plan_run(replicated(small_model()), small_data(), o).sums_apart;
  };
  EXPECT_TRUE(adds_up([](auto&) {}));
  EXPECT_FALSE(adds_up([](auto& o) { o.cure = "inverse"; }));
  EXPECT_FALSE(adds_up([](auto& o) { o.optimizer.clip_norm = 1; }));
  EXPECT_FALSE(adds_up([](auto& o) { o.local_steps = 2; }));
  EXPECT_FALSE(
      adds_up([](auto& o) { o.parameter_actor = std::make_shared<parameter_actor_kind>("mine", false); }));
}

TEST(RunPlan, GivesTheShardsTheOuterOptimiserOfLocalSteps) {
  training_options o = on_cores(1);
  o.optimizer.learning_rate = 0.125;
  EXPECT_EQ(planned(o).shard_rule.learning_rate, 0.125);
  o.local_steps = 4;
  EXPECT_EQ(planned(o).shard_rule.learning_rate, 1);
  EXPECT_EQ(planned(o).replica_layout->shard_count(), 1U);
}

TEST(RunPlan, OfShardsAloneHasNoStepsAndNoData) {
  const auto layout = std::make_shared<parameter_layout>(testing::layout_of({{"w", {64}}}, 2));
  training_options o = on_cores(2, "ssp:3");
  o.optimizer.learning_rate = 0.5;
  const run_plan plan = plan_shards(layout, o);
  EXPECT_EQ(plan.layout, layout);
  EXPECT_EQ(plan.workers(), 2U);
  EXPECT_EQ(plan.first_policy().text(), "ssp:3");
  EXPECT_EQ(plan.shard_rule.learning_rate, 0.5);
  EXPECT_EQ(plan.data, nullptr);
  EXPECT_EQ(plan.steps, 0U);
  const auto table = std::make_shared<parameter_layout>(testing::layout_of({{"t", {8, 2}, true}}, 1));
  o.cure = "dc-asgd:1";
  expect_refused({
      {"no layout", [] { plan_shards(nullptr, {}); }, "shards: there is no layout"},
      {"a policy that is none", [&] { plan_shards(layout, on_cores(1, "asink")); }, "asink"},
      {"a cure of a table", [&] { plan_shards(table, o); }, "table 't'"},
  });
}

TEST(RunDescription, TellsTheOptionsOfARun) {
  training_options o = on_cores(2, "hogwild");
  o.words = {"mailgrad", "train"};
  o.model_name = "mlp";
  o.seed = 9;
  training_report r;
  r.steps = 12;
  describe(r, planned(o));
  EXPECT_EQ(r.model, "mlp");
  EXPECT_EQ(r.policy, "hogwild");
  EXPECT_EQ(r.shards, 0U) << "the run has none, whatever the option says";
  EXPECT_EQ(r.workers, 2U);
  EXPECT_THAT(r.devices, ElementsAre("cpu:0", "cpu:1"));
  EXPECT_EQ(r.weights, 67U);
  EXPECT_EQ(r.seed, 9U);
  EXPECT_EQ(r.epochs, 12.0 * 8 / static_cast<double>(small_data()->train.size()));
  EXPECT_FALSE(r.mean_step_factor);
}

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

training_options recorded_by_two() {
  training_options o;
  o.devices = {{device_kind::cpu, 0}, {device_kind::cpu, 0}};
  o.batch = 8;
  o.shards = 3;
  o.words = {"--batch", "8"};
  return o;
}

run_plan planned_from(training_options o) { return plan_run(small_model(), small_data(), std::move(o)); }

TEST(RecordingOfPlan, TellsWorkersShardsFactsAndWords) {
  const run_plan plan = planned_from(recorded_by_two());
  const recording_header h = recording_header_of(plan);
  EXPECT_EQ(h.workers, 2u);
  EXPECT_EQ(h.shards, 3u);
  EXPECT_EQ(h.slots, 0u) << "nobody may join later";
  EXPECT_EQ(h.facts, facts_and_names(plan));
  EXPECT_THAT(h.words, ElementsAre("--batch", "8"));
}

TEST(RecordingOfPlan, RepeatsOfTheFirstPartWhatMustStayTheSame) {
  training_options o = recorded_by_two();
  o.elsewhere.emplace(); // workers that have told nothing yet
  run_plan plan = planned_from(o);
  recording before;
  before.header = recording_header_of(plan);
  for (auto& [what, is] : before.header.facts)
    if (what == first_weights_fact) is = "those of the first part";
  before.header.facts.emplace_back(computers_fact, "two of a kind");
  plan.recorded_before = std::make_shared<const recording>(before);

  const recording_header h = recording_header_of(plan);
  EXPECT_EQ(reported_fact(h.facts, first_weights_fact), "those of the first part");
  EXPECT_EQ(reported_fact(h.facts, computers_fact), "two of a kind");
  EXPECT_FALSE(tells(h.facts, products_fact)) << "the first part does not tell it";
}

TEST(RecordingOfPlan, LeavesRoomForTheWeightsReportsAndCheckpoints) {
  training_options o = recorded_by_two();
  const run_plan without = planned_from(o);
  const std::uint64_t weights = without.layout->size() * sizeof(float), reports = 1 << 18;
  EXPECT_EQ(room_beside_recording(without, {}), weights + reports);

  o.checkpoints.folder = "checkpoints";
  o.checkpoints.keep = 3;
  const run_plan plan = planned_from(o);
  const auto checkpoints = [&](checkpoint_account so_far) {
    return room_beside_recording(plan, so_far) - weights - reports;
  };
  EXPECT_EQ(checkpoints({}), 4 * (4 * weights)) << "four, each of four arrays";
  EXPECT_EQ(checkpoints({.written = 2, .bytes = 2000}), 2 * 1000u)
      << "the third, and one before it is removed";
  EXPECT_EQ(checkpoints({.written = 50, .bytes = 50'000}), 1000u);
}

} // namespace
} // namespace mailgrad
