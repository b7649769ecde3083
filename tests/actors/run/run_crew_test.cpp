#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/engine/shard/push_of.hpp>
#include <mailgrad/tests/engine/small_problem.hpp>
#include <mailgrad/tests/support/deterministic_test.hpp>

#include <mailgrad/actors/run/run_crew.hpp>

#include <gmock/gmock.h>

#include <optional>

namespace mailgrad {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

class RunCrew : public testing::DeterministicTest {
protected:
  training_options options_for(const std::string& policy, std::uint32_t workers) const {
    training_options o;
    o.devices.assign(workers, {device_kind::cpu, 0});
    o.policy = policy;
    o.batch = 8;
    o.steps = 6;
    o.shards = 2;
    return o;
  }
  run_plan planned(const training_options& o) const {
    return plan_run(testing::small_model(), testing::small_data(), o);
  }
  run_crew_options options() {
    run_crew_options o{time_};
    o.coordinator_has_thread = false;
    o.on_end = [this](run_outcome outcome) { outcome_ = std::move(outcome); };
    return o;
  }

  std::optional<run_outcome> outcome_;
};

TEST_F(RunCrew, TrainsAsThePlanSays) {
  run_crew crew(system(), planned(options_for("sync", 3)), options());
  EXPECT_THAT(crew.devices(), SizeIs(3));
  EXPECT_THAT(crew.shards(), SizeIs(2));
  EXPECT_THAT(crew.stages(), IsEmpty());
  EXPECT_EQ(crew.store(), nullptr);
  run();
  ASSERT_TRUE(outcome_);
  EXPECT_EQ(outcome_->how, run_outcome::ending::completed);
  std::uint64_t steps = 0;
  for (const worker_report& w : outcome_->workers) steps += w.steps;
  EXPECT_EQ(steps, 6U);
  crew.give_up();
}

TEST_F(RunCrew, OfHogwildAloneHasABlockAndNoShards) {
  run_crew crew(system(), planned(options_for("hogwild", 2)), options());
  EXPECT_THAT(crew.shards(), IsEmpty());
  ASSERT_NE(crew.store(), nullptr);
  run();
  ASSERT_TRUE(outcome_);
  EXPECT_EQ(crew.store()->version(), 6U);
  crew.give_up();
}

/// A process of a larger run may have only the shards; whoever has their handles pushes to them.
TEST_F(RunCrew, SpawnsOnlyTheRolesThatAreWanted) {
  const auto layout = std::make_shared<parameter_layout>(testing::layout_of({{"w", {64}}}, 2));
  run_crew_options only_shards = options();
  only_shards.roles = {.shards = true, .feeder = false, .coordinator = false, .workers = false};
  run_crew crew(system(), plan_shards(layout, options_for("async", 1)), std::move(only_shards));
  EXPECT_THAT(crew.shards(), SizeIs(2));
  EXPECT_THAT(crew.devices(), IsEmpty());
  EXPECT_FALSE(crew.feeder());
  EXPECT_FALSE(crew.coordinator());
  auto device = listen<shard_weights>();
  tell(crew.shards()[1], join_shard{{0}, {}, device.actor()});
  tell(crew.shards()[1], testing::push_of(0, 1, 0, testing::constant_gradient(*layout, 1)));
  ASSERT_THAT(device.heard<shard_weights>(), SizeIs(2));
  EXPECT_EQ(device.heard<shard_weights>()[1].header.shard, shard_index{1});
  EXPECT_EQ(device.heard<shard_weights>()[1].header.version.value, 1U);
  crew.give_up();
  run();
}

/// The actor that stands between a worker and a shard gets what the worker sends.
TEST_F(RunCrew, LetsATestStandBetweenWorkersAndShards) {
  auto between = listen<join_shard, push_gradient, worker_left>();
  run_crew_options overheard = options();
  std::vector<std::pair<std::uint32_t, std::uint32_t>> asked;
  overheard.between = [&](rank worker, std::uint32_t shard, const caf::actor& handle) {
    asked.emplace_back(worker.value, shard);
    return worker == rank{1} && shard == 0 ? between.actor() : handle;
  };
  run_crew crew(system(), planned(options_for("async", 2)), std::move(overheard));
  run();
  EXPECT_THAT(asked, SizeIs(4));
  EXPECT_THAT(between.heard<join_shard>(), SizeIs(1));
  EXPECT_EQ(between.heard<join_shard>()[0].worker, rank{1});
  crew.give_up();
  run();
}

TEST_F(RunCrew, EndsEveryActorWhenItGivesUp) {
  run_crew crew(system(), planned(options_for("sync", 2)), options());
  crew.give_up();
  run();
  EXPECT_FALSE(outcome_);
  for (const caf::actor& a : crew.devices()) {
    auto question = ask<wait_named>(a, name_waits{});
    EXPECT_THAT(question.heard<wait_named>(), IsEmpty());
  }
}

/// The last of its workers cannot be built when the others already live.
TEST_F(RunCrew, EndsWhoeverLivesIfAWorkerCannotBeBuilt) {
  run_plan plan = planned(options_for("async", 2));
  run_crew_options broken = options();
  broken.runner = [](rank worker, std::shared_ptr<step_runner> own) {
    if (worker == rank{1}) throw std::runtime_error("the test wants it");
    return own;
  };
  EXPECT_THROW(run_crew(system(), std::move(plan), std::move(broken)), std::runtime_error);
  run();
  EXPECT_FALSE(outcome_) << "no run has begun that could end";
}

} // namespace
} // namespace mailgrad
