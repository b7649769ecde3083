#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/engine/small_problem.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <mailgrad/engine/plan/run_plan.hpp>
#include <mailgrad/graph/models/spanning_models.hpp>

#include <gmock/gmock.h>

#include <memory>

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

} // namespace
} // namespace mailgrad
