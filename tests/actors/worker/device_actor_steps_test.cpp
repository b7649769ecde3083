#include <mailgrad/tests/actors/worker/device_actor_fixture.hpp>
#include <mailgrad/tests/engine/worker/ahead_runner.hpp>
#include <mailgrad/tests/engine/worker/played_timer.hpp>

#include <mailgrad/engine/worker/delayed_runner.hpp>

#include <gmock/gmock.h>

#include <bit>
#include <limits>
#include <stdexcept>

// A worker whose steps end after they have begun: later, behind the next one, or only if a shard wants them.

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using testing::DeviceActor, testing::only;
using ::testing::IsEmpty, ::testing::SizeIs;

class LateDeviceActor : public DeviceActor {
protected:
  LateDeviceActor() { late_.emplace(1); }
  ~LateDeviceActor() override {
    while (late_->end_one()) {
    } // a runner that dies waits for its step
  }
};

TEST_F(LateDeviceActor, PushesWhenItsStepHasEnded) {
  begin_with_a_step();
  EXPECT_THAT(pushed_to(0), IsEmpty());
  EXPECT_FALSE(given_[0].expired()) << "the step reads them";
  EXPECT_EQ(only(waits()).what, "worker 3 waits for a late step");
  end_a_late_step();
  EXPECT_THAT(pushed_to(0), SizeIs(1));
  EXPECT_TRUE(given_[0].expired());
}

TEST_F(LateDeviceActor, BeginsNoOtherStepMeanwhile) {
  begin_with_a_step();
  give_batch();
  EXPECT_EQ(late_->under_way(), 1U);
  tell(device_, data_exhausted{});
  EXPECT_EQ(reports(), 0U);
  end_a_late_step();
  give_all_weights(1);
  EXPECT_EQ(late_->under_way(), 1U) << "the batch that came meanwhile";
}

TEST_F(LateDeviceActor, PausesWhenItsStepHasEnded) {
  begin_with_a_step();
  tell(device_, pause_worker{1, false});
  EXPECT_THAT(coordinator_.heard<worker_paused>(), IsEmpty());
  end_a_late_step();
  EXPECT_EQ(only(coordinator_.heard<worker_paused>()).step.value, 1U) << "the step counts for the old epoch";
}

TEST_F(LateDeviceActor, ReportsAtOnceWhenItGivesUpAndHoldsWhatItsStepReads) {
  begin_with_a_step();
  tell(device_, give_up{});
  EXPECT_EQ(finished().produced, 0U);
  EXPECT_THAT(shards_[0].heard<worker_left>(), SizeIs(1));
  EXPECT_FALSE(given_[0].expired()) << "the step reads them still";
  begin_step(1); // what comes now changes nothing
  tell(device_, pause_worker{1, false});
  tell(device_, give_up{});
  EXPECT_FALSE(given_[0].expired());
  end_a_late_step();
  EXPECT_TRUE(given_[0].expired()) << "the actor has ended";
  EXPECT_EQ(reports(), 1U) << "once";
  EXPECT_THAT(coordinator_.heard<worker_paused>(), IsEmpty());
  EXPECT_THAT(pushed_to(0), IsEmpty());
}

TEST_F(LateDeviceActor, SaysWhyItsStepFailed) {
  begin_with_a_step(unlucky_batch);
  EXPECT_THAT(coordinator_.heard<worker_failed>(), IsEmpty());
  end_a_late_step();
  EXPECT_EQ(only(coordinator_.heard<worker_failed>()).why, "dense1: no memory for it");
  EXPECT_EQ(coordinator_.heard<worker_failed>()[0].step, 1U);
}

/// A runner ends the step under way before it goes, and the step reads weights.
TEST_F(DeviceActor, HoldsItsWeightsUntilItsRunnerHasGoneWhenItIsKilled) {
  std::optional<bool> held;
  wrap_ = [&](const std::shared_ptr<step_runner>& own) {
    return std::shared_ptr<step_runner>(own.get(), [&, own](auto*) { held = !given_.front().expired(); });
  };
  begin();
  give_all_weights(0);
  messaging::kill(device_);
  run();
  EXPECT_EQ(held, true);
}

/// A worker that runs ahead of its device: it pushes a gradient when its step has begun.
class AheadDeviceActor : public DeviceActor {
protected:
  AheadDeviceActor() {
    wrap_ = [this](std::shared_ptr<step_runner> own) {
      return ahead_ = std::make_shared<testing::ahead_runner>(std::move(own));
    };
  }
  void begin_steps(std::uint64_t count, double clip_norm = 0) {
    begin(clip_norm);
    for (std::uint64_t version = 0; version < count; ++version) begin_step(version);
  }
  void end_one(device_span when = {}) {
    ahead_->end_one(when);
    run();
  }

  std::shared_ptr<testing::ahead_runner> ahead_;
};

TEST_F(AheadDeviceActor, PushesWhenItsStepHasBegun) {
  begin_steps(1);
  const gradient_header& x = only(pushed_to(0)).header;
  EXPECT_THAT(pushed_to(1), SizeIs(1));
  EXPECT_EQ(x.id.step.value, 1U);
  EXPECT_EQ(x.batches, 1U);
  EXPECT_EQ(x.samples, 4U);
  EXPECT_FALSE(x.times.compute) << "nobody knows yet";
  EXPECT_EQ(ahead_->under_way(), 1U);
  EXPECT_EQ(batches_asked_for(), 2U);
}

TEST_F(AheadDeviceActor, BeginsOneStepMoreThanTheOneUnderWay) {
  begin_steps(2);
  EXPECT_EQ(ahead_->under_way(), 2U);
  begin_step(2);
  EXPECT_EQ(ahead_->under_way(), 2U);
  EXPECT_THAT(pushed_to(0), SizeIs(2));
  end_one();
  EXPECT_EQ(ahead_->under_way(), 2U) << "the third has begun";
  ASSERT_THAT(pushed_to(0), SizeIs(3));
  EXPECT_EQ(pushed_to(0)[2].header.version_read.value, 2U);
}

TEST_F(AheadDeviceActor, TellsTheShardsHowLongTheDeviceTook) {
  begin_steps(2);
  end_one({10us, 40us});
  begin_step(2);
  end_one({50us, 70us});
  begin_step(3);
  ASSERT_THAT(pushed_to(0), SizeIs(4));
  EXPECT_EQ(pushed_to(0)[2].header.times.compute, instant(30us));
  EXPECT_EQ(pushed_to(0)[3].header.times.compute, instant(20us));
}

TEST_F(AheadDeviceActor, EndsWhenItHasHeardOfItsLastStep) {
  begin_steps(2);
  give_all_weights(2);
  tell(device_, data_exhausted{});
  EXPECT_EQ(reports(), 0U);
  end_one();
  EXPECT_EQ(reports(), 0U);
  end_one();
  const worker_report r = finished();
  EXPECT_EQ(r.steps, 2U);
  EXPECT_EQ(r.produced, 2U);
  EXPECT_EQ(r.samples, 8U);
  EXPECT_EQ(r.last_losses.samples(), 8U);
}

TEST_F(AheadDeviceActor, NamesTheStepThatFailed) {
  begin_steps(2);
  ahead_->fail_one(std::make_exception_ptr(std::runtime_error("label 9")));
  run();
  const worker_failed& x = only(coordinator_.heard<worker_failed>());
  EXPECT_EQ(x.step, 1U);
  EXPECT_EQ(x.why, "label 9");
  EXPECT_EQ(x.report.produced, 2U) << "both are at the shards";
  EXPECT_FALSE(runner_.expired()) << "a step is under way";
  const auto held = std::exchange(ahead_, nullptr);
  held->end_one();
  run();
  EXPECT_EQ(runner_.lock(), held);
  EXPECT_EQ(held.use_count(), 1) << "the actor has ended";
}

TEST_F(AheadDeviceActor, NamesTheStepWhoseLossIsNotFinite) {
  begin_steps(2);
  end_one();
  ahead_->end_one_with(std::numeric_limits<float>::quiet_NaN());
  run();
  const loss_diverged& x = only(coordinator_.heard<loss_diverged>());
  EXPECT_EQ(x.step, 2U);
  EXPECT_EQ(x.report.produced, 2U);
  EXPECT_EQ(x.report.not_finite, 0U) << "the shards have it";
  EXPECT_EQ(x.report.last_losses.samples(), 4U);
}

TEST_F(AheadDeviceActor, PausesWhileItsDeviceStillComputes) {
  begin_steps(1);
  tell(device_, pause_worker{{1}, false});
  EXPECT_EQ(only(coordinator_.heard<worker_paused>()).step.value, 1U);
  EXPECT_EQ(coordinator_.heard<worker_paused>()[0].batches, 1U);
  end_one();
  tell(device_, data_exhausted{});
  EXPECT_EQ(reports(), 0U) << "it waits for weights of the new policy";
}

TEST_F(AheadDeviceActor, SendsItsPartOfACheckpointWithTheLossesOfAllItsSteps) {
  begin_steps(2);
  tell(device_, take_checkpoint{1});
  EXPECT_EQ(only(feeder_.heard<worker_marked>()).trained, 2U) << "the place of the marker is here";
  begin_step(2);
  EXPECT_EQ(parts(), 0U);
  end_one();
  EXPECT_EQ(parts(), 0U);
  EXPECT_THAT(pushed_to(0), SizeIs(3));
  end_one();
  ASSERT_EQ(parts(), 1U);
  EXPECT_EQ(kept(0).steps, 2U);
  EXPECT_EQ(kept(0).produced, 2U);
  EXPECT_EQ(kept(0).last_losses.samples(), 8U);
  end_one();
  tell(device_, take_checkpoint{2});
  ASSERT_EQ(parts(), 2U) << "at once, since no step is under way";
  EXPECT_EQ(kept(1).steps, 3U);
}

TEST_F(AheadDeviceActor, SendsAPartThatWaitsWhenItGivesUp) {
  begin_steps(1);
  tell(device_, take_checkpoint{1});
  EXPECT_EQ(parts(), 0U);
  tell(device_, give_up{});
  EXPECT_EQ(parts(), 1U);
  EXPECT_EQ(finished().steps, 1U);
  end_one();
}

TEST_F(AheadDeviceActor, LeavesWhenItsLastStepHasEnded) {
  begin_steps(2);
  give_all_weights(2);
  tell(device_, leave_run{});
  EXPECT_THAT(feeder_.heard<deal_again>(), IsEmpty());
  end_one();
  end_one();
  EXPECT_EQ(only(feeder_.heard<deal_again>()).trained, 2U);
  EXPECT_EQ(finished().last_losses.samples(), 8U);
}

TEST_F(AheadDeviceActor, PushesAClippedGradientWhenItsNormIsKnown) {
  begin_steps(1, 0.001);
  EXPECT_THAT(pushed_to(0), IsEmpty());
  end_one();
  EXPECT_LT(std::bit_cast<float>(only(pushed_to(0)).header.scale_bits), 1);
}

TEST_F(AheadDeviceActor, CountsNoWaitThatLiesUnderAStep) {
  begin_steps(1);
  time_->advance(5ms);
  for (const std::uint32_t s : {0U, 1U})
    give_weights(s, 1, 5ms); // a barrier opened after 5 ms, and the step still runs
  give_batch();
  end_one();
  end_one();
  time_->advance(2ms);
  for (const std::uint32_t s : {0U, 1U})
    give_weights(s, 2, 7ms); // of which the device computed for all but the last 2 ms
  give_batch();
  tell(device_, data_exhausted{});
  end_one();
  give_all_weights(3);
  EXPECT_EQ(finished().barrier_wait, instant(2ms).count());
}

TEST_F(AheadDeviceActor, ShowsItsStepsAsTheDeviceComputedThem) {
  trace_ = std::make_shared<trace_track>("worker 3", 100, instant{0});
  const instant begun = time_->now();
  begin_steps(2);
  time_->advance(1ms);
  end_one({100us, 300us});
  time_->advance(205us);
  end_one({310us, 500us});
  give_all_weights(2);
  tell(device_, data_exhausted{});
  const auto trace = finished().trace;
  std::vector<trace_event> steps;
  for (const trace_event& e : trace->events())
    if (e.what == trace_kind::compute) steps.push_back(e);
  ASSERT_THAT(steps, SizeIs(2));
  EXPECT_EQ(steps[0].end, begun + 1ms) << "when it was seen here";
  EXPECT_EQ(steps[0].end - steps[0].begin, instant(200us));
  EXPECT_EQ(steps[1].end - steps[1].begin, instant(190us));
  EXPECT_NEAR(static_cast<double>((steps[1].begin - steps[0].end).count()), 10'000, 25) << "the drift";
}

/// A device actor in simulated time, whose steps are computed only if a shard may take their gradients.
class SkippingDeviceActor : public DeviceActor {
protected:
  SkippingDeviceActor() {
    wrap_ = [this](std::shared_ptr<step_runner> own) -> std::shared_ptr<step_runner> {
      return std::make_shared<simulated_runner>(
          std::move(own),
          step_delays{std::make_unique<testing::listed_delays>(std::vector<double>{1}), time_, timer_},
          nullptr, [this](float) { ++computed_; }, true);
    };
  }
  void begin_and_wait() {
    begin();
    begin_step(7);
    let_time_pass();
  }
  void let_time_pass() {
    ASSERT_TRUE(timer_->next());
    run();
  }
  void predict(std::uint32_t shard, bool discarded, std::uint64_t step = 1) {
    tell(device_, verdict_predicted{{shard}, {step}, discarded});
  }
  const std::vector<predict_verdict>& asked_of(std::size_t shard) {
    return shards_[shard].heard<predict_verdict>();
  }

  const std::shared_ptr<testing::played_timer> timer_ = std::make_shared<testing::played_timer>(time_);
  int computed_ = 0;
};

TEST_F(SkippingDeviceActor, AsksEachShardWhenItsStepHasEnded) {
  begin();
  begin_step(7);
  EXPECT_THAT(asked_of(0), IsEmpty());
  let_time_pass();
  for (std::size_t s = 0; s < 2; ++s) {
    EXPECT_EQ(only(asked_of(s)).worker, rank{3});
    EXPECT_EQ(asked_of(s)[0].step, step_number{1});
    EXPECT_EQ(asked_of(s)[0].version_read, version_number{7});
    EXPECT_THAT(pushed_to(s), IsEmpty());
  }
  EXPECT_EQ(computed_, 0);
}

TEST_F(SkippingDeviceActor, PushesNoValuesIfAllShardsWillDiscardThem) {
  begin_and_wait();
  predict(0, true);
  EXPECT_THAT(pushed_to(0), IsEmpty()) << "the other shard has not said";
  predict(1, true);
  EXPECT_EQ(computed_, 0);
  for (std::size_t s = 0; s < 2; ++s) {
    EXPECT_FALSE(only(pushed_to(s)).payload.values);
    EXPECT_EQ(pushed_to(s)[0].header.version_read, version_number{7});
    EXPECT_EQ(pushed_to(s)[0].header.batches, 1U) << "its batch is done with";
  }
}

TEST_F(SkippingDeviceActor, ComputesItsStepIfAnyShardMayTakeIt) {
  for (const bool first : {true, false}) {
    computed_ = 0;
    begin_and_wait();
    predict(0, first);
    predict(1, !first);
    EXPECT_EQ(computed_, 1);
    EXPECT_TRUE(pushed_to(1).back().payload.values);
    tell(device_, give_up{});
  }
}

TEST_F(SkippingDeviceActor, GoesOnAfterASkippedStep) {
  begin_and_wait();
  for (const std::uint32_t s : {0U, 1U}) predict(s, true);
  give_batch();
  give_all_weights(9);
  let_time_pass();
  predict(0, true); // of the step before, said once more
  predict(0, false, 2);
  EXPECT_THAT(pushed_to(0), SizeIs(1));
  predict(1, false, 2);
  EXPECT_THAT(pushed_to(0), SizeIs(2));
  const worker_report r = finished_at(10);
  EXPECT_EQ(r.steps, 2U);
  EXPECT_EQ(r.samples, 8U);
  EXPECT_EQ(r.produced, 2U);
  EXPECT_EQ(r.last_losses.samples(), 4U) << "one loss is not known";
}

TEST_F(SkippingDeviceActor, PausesOnlyWhenTheShardsHaveSaid) {
  begin_and_wait();
  tell(device_, pause_worker{{1}, false});
  EXPECT_THAT(coordinator_.heard<worker_paused>(), IsEmpty());
  for (const std::uint32_t s : {0U, 1U}) predict(s, true);
  EXPECT_EQ(only(coordinator_.heard<worker_paused>()).step, step_number{1});
}

TEST_F(SkippingDeviceActor, EndsWhenItGivesUpBeforeTheShardsHaveSaid) {
  begin_and_wait();
  tell(device_, give_up{});
  EXPECT_EQ(reports(), 1U);
  for (const std::uint32_t s : {0U, 1U}) predict(s, false);
  EXPECT_EQ(computed_, 0);
  EXPECT_THAT(pushed_to(0), IsEmpty());
  EXPECT_TRUE(runner_.expired()) << "the actor has ended";
}

} // namespace
} // namespace mailgrad
