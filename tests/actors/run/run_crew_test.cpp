#include <mailgrad/actors/run/run_crew.hpp>
#include <mailgrad/engine/worker/step_runner.hpp>
#include <mailgrad/graph/models/spanning_models.hpp>
#include <mailgrad/tests/actors/only.hpp>
#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/engine/shard/push_of.hpp>
#include <mailgrad/tests/engine/small_problem.hpp>
#include <mailgrad/tests/support/deterministic_test.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <gmock/gmock.h>

#include <cmath>

namespace mailgrad {
namespace {

using mailgrad::testing::only;
using testing::expect_refused;
using ::testing::IsEmpty, ::testing::SizeIs;

/// Gives up when it goes out of scope, so that a test that fails ends too: the system waits for its actors.
struct ending_crew : run_crew {
  using run_crew::run_crew;
  ~ending_crew() { give_up(); }
};

class RunCrew : public testing::DeterministicTest {
protected:
  ~RunCrew() override { run(); } // while what the callbacks refer to is there
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
  const run_outcome& completed() {
    run();
    EXPECT_EQ(outcome_.value().how, run_outcome::ending::completed) << outcome_->why;
    return *outcome_;
  }

  std::optional<run_outcome> outcome_;
  std::vector<training_progress> shown_;
};

TEST_F(RunCrew, TrainsAsThePlanSays) {
  ending_crew crew(system(), planned(options_for("sync", 3)), options());
  EXPECT_THAT(crew.devices(), SizeIs(3));
  EXPECT_THAT(crew.shards(), SizeIs(2));
  EXPECT_THAT(crew.stages(), IsEmpty());
  EXPECT_EQ(crew.store(), nullptr);
  const run_outcome& o = completed();
  std::uint64_t steps = 0;
  for (const worker_report& w : o.workers) steps += w.steps;
  EXPECT_EQ(steps, 6U);
  EXPECT_FALSE(o.workers[0].trace || o.shards[0].trace || o.feeder_trace) << "the plan wants no timeline";
}

TEST_F(RunCrew, OfHogwildAloneHasABlockAndNoShards) {
  ending_crew crew(system(), planned(options_for("hogwild", 2)), options());
  EXPECT_THAT(crew.shards(), IsEmpty());
  ASSERT_NE(crew.store(), nullptr);
  completed();
  EXPECT_EQ(crew.store()->version(), 6U);
}

/// A process of a larger run may have only the shards; whoever has their handles pushes to them.
TEST_F(RunCrew, SpawnsOnlyTheRolesThatAreWanted) {
  const auto layout = std::make_shared<parameter_layout>(testing::layout_of({{"w", {64}}}, 2));
  run_crew_options only_shards = options();
  only_shards.roles = {.shards = true, .feeder = false, .coordinator = false, .workers = false};
  ending_crew crew(system(), plan_shards(layout, options_for("async", 1)), std::move(only_shards));
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
}

TEST_F(RunCrew, LetsATestStandBetweenWorkersAndShards) {
  auto between = listen<join_shard, push_gradient, worker_left>();
  run_crew_options overheard = options();
  std::vector<std::pair<std::uint32_t, std::uint32_t>> asked;
  overheard.between = [&](rank worker, std::uint32_t shard, const caf::actor& handle) {
    asked.emplace_back(worker.value, shard);
    return worker == rank{1} && shard == 0 ? between.actor() : handle;
  };
  ending_crew crew(system(), planned(options_for("async", 2)), std::move(overheard));
  run();
  EXPECT_THAT(asked, SizeIs(4));
  EXPECT_EQ(only(between.heard<join_shard>()).worker, rank{1});
}

TEST_F(RunCrew, EndsEveryActorWhenItGivesUp) {
  ending_crew crew(system(), planned(options_for("sync", 2)), options());
  crew.give_up();
  run();
  EXPECT_FALSE(outcome_);
  for (const caf::actor& a : crew.devices())
    EXPECT_THAT(ask<wait_reason>(a, list_wait_reasons{}).heard<wait_reason>(), IsEmpty());
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

TEST_F(RunCrew, RefusesWhatCannotBeSpawnedBeforeAnyActorLives) {
  const auto crew = [this](const std::function<void(run_plan&, run_crew_options&)>& change) {
    return [this, change] {
      run_plan plan = planned(options_for("async", 1));
      run_crew_options o = options();
      change(plan, o);
      run_crew(system(), std::move(plan), std::move(o));
    };
  };
  const char* const beside = "run_crew: workers need shards, a feeder and a coordinator beside them";
  expect_refused({
      {"no time", crew([](auto&, auto& o) { o.time.reset(); }), "run_crew: there is no time source"},
      {"no layout", crew([](auto& p, auto&) { p.layout.reset(); }), "run_crew: the plan has no layout"},
      {"no policy", crew([](auto& p, auto&) { p.policies.clear(); }), "run_crew: the plan has no policy"},
      {"no data", crew([](auto& p, auto&) { p.data.reset(); }), "run_crew: there is a feeder, but no data"},
      {"no model", crew([](auto& p, auto&) { p.model = {}; }), "run_crew: there are workers, but no model"},
      {"no shards", crew([](auto&, auto& o) { o.roles.shards = false; }), beside},
      {"no feeder", crew([](auto&, auto& o) { o.roles.feeder = false; }), beside},
      {"no coordinator", crew([](auto&, auto& o) { o.roles.coordinator = false; }), beside},
      {"workers alone", crew([](auto&, auto& o) {
         o.roles = crew_roles{false, false, false, true};
       }),
       beside},
      {"a coordinator alone", crew([](auto&, auto& o) {
         o.roles = crew_roles{true, false, true, false};
       }),
       "a coordinator needs a feeder"},
      {"an actor that nobody can spawn", crew([](auto& p, auto&) {
         p.options.parameter_actor = std::make_shared<parameter_actor_kind>("mine", false);
       }),
       "parameter actor 'mine': make_custom_parameter_actor() makes one"},
  });
  EXPECT_FALSE(step()) << "an actor lives";
}

TEST_F(RunCrew, NeedsNoModelWithoutWorkers) {
  run_plan plan = planned(options_for("async", 1));
  plan.model = {};
  run_crew_options o = options();
  o.roles = {.shards = true, .feeder = true, .coordinator = true, .workers = false};
  ending_crew crew(system(), std::move(plan), std::move(o));
  EXPECT_TRUE(crew.feeder());
  EXPECT_TRUE(crew.coordinator());
  EXPECT_TRUE(crew.tracker());
  EXPECT_THAT(crew.devices(), IsEmpty());
  EXPECT_EQ(crew.started(), time_->now());
}

TEST_F(RunCrew, StagesTheWorkersThatSpanDevices) {
  training_options o = options_for("sync", 2);
  o.devices = {{device_kind::cpu, 0}, {device_kind::cpu, 1}, {device_kind::cpu, 0}, {device_kind::cpu, 1}};
  o.workers = 2;
  o.trace_events = 4;
  ending_crew crew(system(), plan_run(pipelined(testing::small_model()), testing::small_data(), o),
                   options());
  EXPECT_THAT(crew.devices(), SizeIs(2));
  EXPECT_THAT(crew.stages(), SizeIs(4));
  EXPECT_THAT(crew.helpers(), SizeIs(1)) << "of two threads, one would sleep";
  const worker_report& second = completed().workers[1];
  EXPECT_EQ(second.trace->name(), "worker 1");
  ASSERT_THAT(second.stages, SizeIs(2));
  EXPECT_EQ(second.stages[0].trace->name(), "worker 1, stage on cpu:0");
  EXPECT_EQ(second.stages[1].trace->name(), "worker 1, stage on cpu:1");
}

TEST_F(RunCrew, NamesTheTimelineOfEachActor) {
  training_options o = options_for("async", 2);
  o.trace_events = 1;
  run_crew_options since = options();
  since.created = time_->now() - std::chrono::seconds{1};
  ending_crew crew(system(), planned(o), since);
  const run_outcome& ended = completed();
  EXPECT_EQ(ended.workers[1].trace->name(), "worker 1 on cpu:0");
  EXPECT_EQ(ended.shards[1].trace->name(), "shard 1");
  ASSERT_TRUE(ended.feeder_trace);
  EXPECT_EQ(ended.feeder_trace->name(), "feeder");
  EXPECT_EQ(only(ended.shards[0].trace->events()).begin, since.created) << "as many as there is room for";
}

/// Six steps of one worker are six differences, or three.
TEST_F(RunCrew, GivesWorkersTheirLocalSteps) {
  for (const std::uint64_t local_steps : {1U, 2U}) {
    outcome_.reset();
    training_options o = options_for("async", 1);
    o.local_steps = local_steps;
    ending_crew crew(system(), planned(o), options());
    EXPECT_EQ(completed().workers[0].steps, 6U);
    EXPECT_EQ(outcome_->shards[1].version.value, 6 / local_steps);
  }
}

TEST_F(RunCrew, SharesABlockWithTheFirstValuesOfAllShards) {
  const run_plan plan = planned(options_for("hogwild, sync@3", 2));
  const std::shared_ptr<const parameter_layout> layout = plan.layout;
  ending_crew crew(system(), plan, options());
  ASSERT_NE(crew.store(), nullptr);
  std::vector<float> shared(layout->size());
  crew.store()->load(0, shared);
  EXPECT_THAT(shared, ::testing::ElementsAreArray(testing::first_values(*layout, plan.options.seed)));
  EXPECT_THAT(crew.shards(), SizeIs(2)) << "for the policy that follows";
  completed();
}

/// Those who measure the run measure it from its first actor on, before its workers take their memory.
TEST_F(RunCrew, LetsATestChooseTheRunnerOfEachWorker) {
  const instant begun = time_->now();
  std::vector<std::uint32_t> asked;
  run_crew_options o = options();
  o.runner = [&](rank worker, std::shared_ptr<step_runner> own) {
    EXPECT_TRUE(own);
    asked.push_back(worker.value);
    time_->advance(std::chrono::seconds{1});
    return own;
  };
  ending_crew crew(system(), planned(options_for("sync", 3)), std::move(o));
  EXPECT_THAT(asked, ::testing::ElementsAre(0, 1, 2));
  EXPECT_EQ(time_->now() - begun, std::chrono::seconds{3});
  EXPECT_EQ(crew.started(), begun);
  completed();
}

TEST_F(RunCrew, SendsTheRecorderHomeToo) {
  auto recorder = listen<order_noted, switch_noted, give_up>();
  run_crew_options o = options();
  o.recorder = recorder.actor();
  ending_crew crew(system(), planned(options_for("async", 1)), std::move(o));
  run();
  EXPECT_THAT(recorder.heard<order_noted>(), ::testing::Not(IsEmpty())) << "it hears the order of the run";
  EXPECT_THAT(recorder.heard<give_up>(), IsEmpty());
  crew.give_up();
  run();
  EXPECT_THAT(recorder.heard<give_up>(), SizeIs(1));
}

/// Under backup:1 the other shards judge only what the first one has named.
TEST_F(RunCrew, LetsTheFirstShardLeadTheOthers) {
  training_options o = options_for("backup:1", 3);
  o.shards = 3;
  ending_crew crew(system(), planned(o), options());
  for (const shard_report& s : completed().shards) EXPECT_EQ(s.version, outcome_->shards[0].version);
}

/// A shard takes no gradient of another run.
TEST_F(RunCrew, TellsEveryActorWhichRunItIs) {
  run_plan plan = planned(options_for("async", 1));
  plan.run = {9};
  ending_crew crew(system(), std::move(plan), options());
  for (const shard_report& s : completed().shards) EXPECT_EQ(s.version.value, 6U);
}

TEST_F(RunCrew, GivesEveryActorTheSameClock) {
  run_crew_options o = options();
  o.on_progress = [this](const training_progress& p) { shown_.push_back(p); };
  training_options switching = options_for("async, sync@3", 1);
  ending_crew crew(system(), planned(switching), std::move(o));
  const instant begun = time_->now();
  while (step()) time_->advance(std::chrono::milliseconds{200});
  ASSERT_TRUE(outcome_);
  EXPECT_GT(only(outcome_->switches).begun, begun);
  EXPECT_LE(outcome_->switches[0].ended, time_->now());
  ASSERT_THAT(shown_, ::testing::Not(IsEmpty()));
  EXPECT_GT(shown_.back().steps, 0U) << "a worker tells what it has done";
}

TEST_F(RunCrew, ClipsGradientsAsThePlanSays) {
  training_options o = options_for("async", 1);
  o.steps = 1;
  o.optimizer = testing::sgd(1);
  o.optimizer.clip_norm = 0.125;
  const run_plan plan = planned(o);
  ending_crew crew(system(), plan, options());
  completed();
  const std::vector<float> first = testing::first_values(*plan.layout, o.seed);
  double squares = 0;
  for (std::size_t s = 0; s < 2; ++s) {
    const shard_range r = plan.layout->shard(s);
    const auto values = outcome_->shards[s].values.on_host();
    for (std::size_t i = r.begin; i < r.end; ++i) {
      const double moved = static_cast<double>(values[i - r.begin]) - static_cast<double>(first[i]);
      squares += moved * moved;
    }
  }
  EXPECT_NEAR(std::sqrt(squares), 0.125, 1e-6);
}

} // namespace
} // namespace mailgrad
