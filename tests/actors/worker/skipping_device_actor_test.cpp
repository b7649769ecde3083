#include <mailgrad/tests/actors/worker/device_actor_fixture.hpp>
#include <mailgrad/tests/engine/worker/played_timer.hpp>

#include <mailgrad/engine/worker/delayed_runner.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace mailgrad {
namespace {

using testing::DeviceActor;
using ::testing::IsEmpty;
using ::testing::SizeIs;

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

  void begin_a_step() {
    begin();
    give_all_weights(7);
    give_batch();
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
  begin_a_step();
  EXPECT_THAT(asked_of(0), IsEmpty());
  let_time_pass();
  for (std::size_t s = 0; s < 2; ++s) {
    ASSERT_THAT(asked_of(s), SizeIs(1));
    EXPECT_EQ(asked_of(s)[0].worker, rank{3});
    EXPECT_EQ(asked_of(s)[0].step, step_number{1});
    EXPECT_EQ(asked_of(s)[0].version_read, version_number{7});
    EXPECT_THAT(pushed_to(s), IsEmpty());
  }
  EXPECT_EQ(computed_, 0);
}

TEST_F(SkippingDeviceActor, PushesNoValuesIfAllShardsWillDiscardThem) {
  begin_a_step();
  let_time_pass();
  predict(0, true);
  EXPECT_THAT(pushed_to(0), IsEmpty()) << "the other shard has not said";
  predict(1, true);
  EXPECT_EQ(computed_, 0);
  for (std::size_t s = 0; s < 2; ++s) {
    ASSERT_THAT(pushed_to(s), SizeIs(1));
    EXPECT_FALSE(pushed_to(s)[0].payload.values);
    EXPECT_EQ(pushed_to(s)[0].header.version_read, version_number{7});
    EXPECT_EQ(pushed_to(s)[0].header.batches, 1U) << "its batch is done with";
  }
}

TEST_F(SkippingDeviceActor, ComputesItsStepIfAnyShardMayTakeIt) {
  for (const bool first : {true, false}) {
    computed_ = 0;
    begin_a_step();
    let_time_pass();
    predict(0, first);
    predict(1, !first);
    EXPECT_EQ(computed_, 1);
    EXPECT_TRUE(pushed_to(1).back().payload.values);
    tell(device_, give_up{});
  }
}

TEST_F(SkippingDeviceActor, GoesOnAfterASkippedStep) {
  begin_a_step();
  let_time_pass();
  predict(0, true);
  predict(1, true);
  give_batch();
  give_all_weights(9);
  let_time_pass();
  predict(0, true); // of the step before, said once more
  predict(0, false, 2);
  EXPECT_THAT(pushed_to(0), SizeIs(1));
  predict(1, false, 2);
  EXPECT_THAT(pushed_to(0), SizeIs(2));
  tell(device_, data_exhausted{});
  give_all_weights(10);
  ASSERT_THAT(coordinator_.heard<worker_finished>(), SizeIs(1));
  const worker_report& r = coordinator_.heard<worker_finished>()[0].report;
  EXPECT_EQ(r.steps, 2U);
  EXPECT_EQ(r.samples, 8U);
  EXPECT_EQ(r.produced, 2U);
  EXPECT_EQ(r.last_losses.samples(), 4U) << "one loss is not known";
}

TEST_F(SkippingDeviceActor, PausesOnlyWhenTheShardsHaveSaid) {
  begin_a_step();
  let_time_pass();
  tell(device_, pause_worker{{1}, false});
  EXPECT_THAT(coordinator_.heard<worker_paused>(), IsEmpty());
  predict(0, true);
  predict(1, true);
  ASSERT_THAT(coordinator_.heard<worker_paused>(), SizeIs(1));
  EXPECT_EQ(coordinator_.heard<worker_paused>()[0].step, step_number{1});
}

TEST_F(SkippingDeviceActor, EndsWhenItGivesUpBeforeTheShardsHaveSaid) {
  begin_a_step();
  let_time_pass();
  tell(device_, give_up{});
  EXPECT_THAT(coordinator_.heard<worker_finished>(), SizeIs(1));
  predict(0, false);
  predict(1, false);
  EXPECT_EQ(computed_, 0);
  EXPECT_THAT(pushed_to(0), IsEmpty());
  EXPECT_TRUE(runner_.expired()) << "the actor has ended";
}

} // namespace
} // namespace mailgrad
