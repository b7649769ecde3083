#include <mailgrad/tests/actors/worker/device_actor_fixture.hpp>
#include <mailgrad/tests/engine/worker/ahead_runner.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <stdexcept>

// A worker that runs ahead of its device: it pushes a gradient when its step has begun.

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using testing::DeviceActor;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class AheadDeviceActor : public DeviceActor {
protected:
  AheadDeviceActor() {
    wrap_ = [this](std::shared_ptr<step_runner> own) {
      ahead_ = std::make_shared<testing::ahead_runner>(std::move(own));
      return ahead_;
    };
  }
  void begin_step(std::uint64_t version) {
    give_all_weights(version);
    give_batch();
  }
  void end_one(device_span when = {}) {
    ahead_->end_one(when);
    run();
  }
  worker_report finished() {
    EXPECT_THAT(coordinator_.heard<worker_finished>(), SizeIs(1));
    return coordinator_.heard<worker_finished>().at(0).report;
  }
  std::size_t parts() { return coordinator_.heard<checkpoint_part>().size(); }
  worker_report kept(std::size_t part) {
    worker_report report;
    const saved_fields& fields = *coordinator_.heard<checkpoint_part>().at(part).fields;
    saved_fields(fields.text(), fields.arrays()).field("report", report);
    return report;
  }

  std::shared_ptr<testing::ahead_runner> ahead_;
};

TEST_F(AheadDeviceActor, PushesWhenItsStepHasBegun) {
  begin();
  begin_step(0);
  ASSERT_THAT(pushed_to(0), SizeIs(1));
  EXPECT_THAT(pushed_to(1), SizeIs(1));
  EXPECT_EQ(pushed_to(0)[0].header.id.step.value, 1U);
  EXPECT_EQ(pushed_to(0)[0].header.batches, 1U);
  EXPECT_EQ(pushed_to(0)[0].header.samples, 4U);
  EXPECT_FALSE(pushed_to(0)[0].header.times.compute) << "nobody knows yet";
  EXPECT_EQ(ahead_->under_way(), 1U);
  EXPECT_EQ(batches_asked_for(), 2U);
}

TEST_F(AheadDeviceActor, BeginsOneStepMoreThanTheOneUnderWay) {
  begin();
  begin_step(0);
  begin_step(1);
  EXPECT_EQ(ahead_->under_way(), 2U);
  begin_step(2);
  EXPECT_EQ(ahead_->under_way(), 2U);
  EXPECT_THAT(pushed_to(0), SizeIs(2));
  end_one();
  EXPECT_EQ(ahead_->under_way(), 2U) << "the third has begun";
  EXPECT_THAT(pushed_to(0), SizeIs(3));
  EXPECT_EQ(pushed_to(0)[2].header.version_read.value, 2U);
}

TEST_F(AheadDeviceActor, TellsTheShardsHowLongTheDeviceTook) {
  begin();
  begin_step(0);
  begin_step(1);
  end_one({10us, 40us});
  begin_step(2);
  end_one({50us, 70us});
  begin_step(3);
  ASSERT_THAT(pushed_to(0), SizeIs(4));
  EXPECT_EQ(pushed_to(0)[2].header.times.compute, instant(30us));
  EXPECT_EQ(pushed_to(0)[3].header.times.compute, instant(20us));
}

TEST_F(AheadDeviceActor, EndsWhenItHasHeardOfItsLastStep) {
  begin();
  begin_step(0);
  begin_step(1);
  give_all_weights(2);
  tell(device_, data_exhausted{});
  EXPECT_THAT(coordinator_.heard<worker_finished>(), IsEmpty());
  end_one();
  EXPECT_THAT(coordinator_.heard<worker_finished>(), IsEmpty());
  end_one();
  const worker_report r = finished();
  EXPECT_EQ(r.steps, 2U);
  EXPECT_EQ(r.produced, 2U);
  EXPECT_EQ(r.samples, 8U);
  EXPECT_EQ(r.last_losses.samples(), 8U);
}

TEST_F(AheadDeviceActor, NamesTheStepThatFailed) {
  begin();
  begin_step(0);
  begin_step(1);
  ahead_->fail_one(std::make_exception_ptr(std::runtime_error("label 9")));
  run();
  ASSERT_THAT(coordinator_.heard<worker_failed>(), SizeIs(1));
  EXPECT_EQ(coordinator_.heard<worker_failed>()[0].step, 1U);
  EXPECT_EQ(coordinator_.heard<worker_failed>()[0].why, "label 9");
  EXPECT_EQ(coordinator_.heard<worker_failed>()[0].report.produced, 2U) << "both are at the shards";
  EXPECT_FALSE(runner_.expired()) << "a step is under way";
  const auto held = std::exchange(ahead_, nullptr);
  held->end_one();
  run();
  EXPECT_EQ(runner_.lock(), held);
  EXPECT_EQ(held.use_count(), 1) << "the actor has ended";
}

TEST_F(AheadDeviceActor, NamesTheStepWhoseLossIsNotFinite) {
  begin();
  begin_step(0);
  begin_step(1);
  end_one();
  ahead_->end_one_with(std::numeric_limits<float>::quiet_NaN());
  run();
  ASSERT_THAT(coordinator_.heard<loss_diverged>(), SizeIs(1));
  const loss_diverged& x = coordinator_.heard<loss_diverged>()[0];
  EXPECT_EQ(x.step, 2U);
  EXPECT_EQ(x.report.produced, 2U);
  EXPECT_EQ(x.report.not_finite, 0U) << "the shards have it";
  EXPECT_EQ(x.report.last_losses.samples(), 4U);
}

TEST_F(AheadDeviceActor, PausesWhileItsDeviceStillComputes) {
  begin();
  begin_step(0);
  tell(device_, pause_worker{{1}, false});
  ASSERT_THAT(coordinator_.heard<worker_paused>(), SizeIs(1));
  EXPECT_EQ(coordinator_.heard<worker_paused>()[0].step.value, 1U);
  EXPECT_EQ(coordinator_.heard<worker_paused>()[0].batches, 1U);
  end_one();
  tell(device_, data_exhausted{});
  EXPECT_THAT(coordinator_.heard<worker_finished>(), IsEmpty()) << "it waits for weights of the new policy";
}

TEST_F(AheadDeviceActor, SendsItsPartOfACheckpointWithTheLossesOfAllItsSteps) {
  begin();
  begin_step(0);
  begin_step(1);
  tell(device_, take_checkpoint{1});
  ASSERT_THAT(feeder_.heard<worker_marked>(), SizeIs(1)) << "the place of the marker is here";
  EXPECT_EQ(feeder_.heard<worker_marked>()[0].trained, 2U);
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
  begin();
  begin_step(0);
  tell(device_, take_checkpoint{1});
  EXPECT_EQ(parts(), 0U);
  tell(device_, give_up{});
  EXPECT_EQ(parts(), 1U);
  EXPECT_EQ(finished().steps, 1U);
  end_one();
}

TEST_F(AheadDeviceActor, LeavesWhenItsLastStepHasEnded) {
  begin();
  begin_step(0);
  begin_step(1);
  give_all_weights(2);
  tell(device_, leave_run{});
  EXPECT_THAT(feeder_.heard<deal_again>(), IsEmpty());
  end_one();
  end_one();
  ASSERT_THAT(feeder_.heard<deal_again>(), SizeIs(1));
  EXPECT_EQ(feeder_.heard<deal_again>()[0].trained, 2U);
  EXPECT_EQ(finished().last_losses.samples(), 8U);
}

TEST_F(AheadDeviceActor, PushesAClippedGradientWhenItsNormIsKnown) {
  begin(0.001);
  begin_step(0);
  EXPECT_THAT(pushed_to(0), IsEmpty());
  end_one();
  ASSERT_THAT(pushed_to(0), SizeIs(1));
  EXPECT_LT(std::bit_cast<float>(pushed_to(0)[0].header.scale_bits), 1);
}

TEST_F(AheadDeviceActor, CountsNoWaitThatLiesUnderAStep) {
  begin();
  begin_step(0);
  time_->advance(5ms);
  give_weights(0, 1, 5ms);
  give_weights(1, 1, 5ms); // a barrier opened after 5 ms, and the step still runs
  give_batch();
  end_one();
  end_one();
  time_->advance(2ms);
  give_weights(0, 2, 7ms); // of which the device computed for all but the last 2 ms
  give_weights(1, 2, 7ms);
  give_batch();
  tell(device_, data_exhausted{});
  end_one();
  give_all_weights(3);
  EXPECT_EQ(finished().barrier_wait, instant(2ms).count());
}

TEST_F(AheadDeviceActor, ShowsItsStepsAsTheDeviceComputedThem) {
  trace_ = std::make_shared<trace_track>("worker 3", 100, instant{0});
  begin();
  const instant begun = time_->now();
  begin_step(0);
  begin_step(1);
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

} // namespace
} // namespace mailgrad
