#include <mailgrad/tests/actors/worker/device_actor_fixture.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <utility>

namespace mailgrad {
namespace {

using testing::DeviceActor;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// A device actor whose runner ends its steps later.
class LateDeviceActor : public DeviceActor {
protected:
  LateDeviceActor() { late_.emplace(1); }
  ~LateDeviceActor() override {
    while (late_->end_one()) {
    } // a runner that dies waits for its step
  }
};

TEST_F(LateDeviceActor, PushesWhenItsStepHasEnded) {
  begin();
  give_all_weights(0);
  give_batch();
  EXPECT_THAT(pushed_to(0), IsEmpty());
  EXPECT_FALSE(given_[0].expired()) << "the step reads them";
  end_a_late_step();
  EXPECT_THAT(pushed_to(0), SizeIs(1));
  EXPECT_TRUE(given_[0].expired());
}

TEST_F(LateDeviceActor, BeginsNoOtherStepMeanwhile) {
  begin();
  give_all_weights(0);
  give_batch();
  give_batch();
  EXPECT_EQ(late_->under_way(), 1U);
  tell(device_, data_exhausted{});
  EXPECT_THAT(coordinator_.heard<worker_finished>(), IsEmpty());
  end_a_late_step();
  give_all_weights(1);
  EXPECT_EQ(late_->under_way(), 1U) << "the batch that came meanwhile";
}

TEST_F(LateDeviceActor, PausesWhenItsStepHasEnded) {
  begin();
  give_all_weights(0);
  give_batch();
  tell(device_, pause_worker{1, false});
  EXPECT_THAT(coordinator_.heard<worker_paused>(), IsEmpty());
  end_a_late_step();
  ASSERT_THAT(coordinator_.heard<worker_paused>(), SizeIs(1));
  EXPECT_EQ(coordinator_.heard<worker_paused>()[0].step.value, 1U) << "the step counts for the old epoch";
}

TEST_F(LateDeviceActor, ReportsAtOnceWhenItGivesUpAndHoldsWhatItsStepReads) {
  begin();
  give_all_weights(0);
  give_batch();
  tell(device_, give_up{});
  ASSERT_THAT(coordinator_.heard<worker_finished>(), SizeIs(1));
  EXPECT_EQ(coordinator_.heard<worker_finished>()[0].report.produced, 0U);
  EXPECT_THAT(shards_[0].heard<worker_left>(), SizeIs(1));
  EXPECT_FALSE(given_[0].expired()) << "the step reads them still";
  give_all_weights(1); // what comes now changes nothing
  give_batch();
  tell(device_, pause_worker{1, false});
  tell(device_, give_up{});
  EXPECT_FALSE(given_[0].expired());
  end_a_late_step();
  EXPECT_TRUE(given_[0].expired()) << "the actor has ended";
  EXPECT_THAT(coordinator_.heard<worker_finished>(), SizeIs(1)) << "once";
  EXPECT_THAT(coordinator_.heard<worker_paused>(), IsEmpty());
  EXPECT_THAT(pushed_to(0), IsEmpty());
}

TEST_F(LateDeviceActor, SaysWhyItsStepFailed) {
  begin();
  give_all_weights(0);
  give_batch(unlucky_batch);
  EXPECT_THAT(coordinator_.heard<worker_failed>(), IsEmpty());
  end_a_late_step();
  ASSERT_THAT(coordinator_.heard<worker_failed>(), SizeIs(1));
  EXPECT_EQ(coordinator_.heard<worker_failed>()[0].why, "dense1: no memory for such a batch");
  EXPECT_EQ(coordinator_.heard<worker_failed>()[0].step, 1U);
}

TEST_F(LateDeviceActor, SaysThatItWaitsForItsStep) {
  begin();
  give_all_weights(0);
  give_batch();
  const auto waits = ask<wait_reason>(device_, list_wait_reasons{}).heard<wait_reason>();
  ASSERT_THAT(waits, SizeIs(1));
  EXPECT_EQ(waits[0].what, "worker 3 waits for a late step");
  end_a_late_step();
}

TEST_F(LateDeviceActor, WritesIntoTheSharedBlockWhenItsStepHasEnded) {
  begin(0, true);
  give_batch();
  EXPECT_EQ(store_->version(), 0U);
  end_a_late_step();
  EXPECT_EQ(store_->version(), 1U);
}

/// Notes as it goes whether these weights are still there.
class last_look final : public step_runner {
public:
  last_look(std::shared_ptr<step_runner> own, std::function<void()> looks)
      : own_(std::move(own)), looks_(std::move(looks)) {}
  ~last_look() override { looks_(); }
  last_look(const last_look&) = delete;
  last_look& operator=(const last_look&) = delete;

  std::shared_ptr<gradient> make_gradient() const override { return own_->make_gradient(); }
  void use_host_weights(std::uint32_t shard, const float* values,
                        std::shared_ptr<const void> owner) override {
    own_->use_host_weights(shard, values, std::move(owner));
  }
  step_state begin_step(std::shared_ptr<const batch> inputs, std::shared_ptr<gradient> into) override {
    return own_->begin_step(std::move(inputs), std::move(into));
  }
  float end_step() override { return own_->end_step(); }

private:
  std::shared_ptr<step_runner> own_;
  std::function<void()> looks_;
};

/// A runner ends the step under way before it goes, and the step reads weights.
TEST_F(DeviceActor, HoldsItsWeightsUntilItsRunnerHasGoneWhenItIsKilled) {
  std::optional<bool> held;
  wrap_ = [&](std::shared_ptr<step_runner> own) {
    return std::make_shared<last_look>(std::move(own), [&] { held = !given_.front().expired(); });
  };
  begin();
  give_all_weights(0);
  messaging::kill(device_);
  run();
  EXPECT_EQ(held, true);
}

} // namespace
} // namespace mailgrad
