#include <mailgrad/tests/actors/worker/device_actor_fixture.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

// A worker of hogwild that stands still for a checkpoint.

namespace mailgrad {
namespace {

using testing::DeviceActor;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class HeldDeviceActor : public DeviceActor {
protected:
  worker_report kept() {
    worker_report report;
    const saved_fields& fields = *coordinator_.heard<checkpoint_part>().back().fields;
    saved_fields(fields.text(), fields.arrays()).field("report", report);
    return report;
  }
  std::size_t parts() { return coordinator_.heard<checkpoint_part>().size(); }
};

TEST_F(HeldDeviceActor, EndsTheStepUnderWayBeforeItMarks) {
  late_.emplace(1);
  begin(0, true);
  give_batch();
  tell(device_, hold_for_checkpoint{1});
  EXPECT_EQ(parts(), 0U) << "the step has read the block and will write to it";
  give_batch();
  end_a_late_step();
  ASSERT_EQ(parts(), 1U);
  EXPECT_EQ(kept().steps, 1U);
  EXPECT_EQ(kept().applied, 1U);
  ASSERT_THAT(feeder_.heard<worker_marked>(), SizeIs(1));
  EXPECT_EQ(feeder_.heard<worker_marked>()[0].trained, 1U) << "not the batch that lies ready";
  EXPECT_EQ(late_->under_way(), 0U) << "it stands still";
  EXPECT_EQ(store_->version(), 1U);
  tell(device_, block_copied{1});
  EXPECT_EQ(late_->under_way(), 1U);
  end_a_late_step();
  EXPECT_EQ(store_->version(), 2U);
}

TEST_F(HeldDeviceActor, CountsAndNamesItsWait) {
  keeps_end_ = true;
  begin(0, true);
  tell(device_, hold_for_checkpoint{3});
  ASSERT_EQ(parts(), 1U);
  time_->advance(instant{500});
  const auto waits = ask<wait_reason>(device_, list_wait_reasons{}).heard<wait_reason>();
  ASSERT_THAT(waits, SizeIs(1));
  EXPECT_EQ(waits[0].what, "worker 3 waits for the block to be copied for checkpoint 3");
  EXPECT_EQ(waits[0].span, 500);
  tell(device_, data_exhausted{});
  EXPECT_THAT(coordinator_.heard<worker_finished>(), IsEmpty()) << "what it waits for comes first";
  tell(device_, block_copied{3});
  tell(device_, mark_at_end{0});
  ASSERT_THAT(coordinator_.heard<worker_finished>(), SizeIs(1));
  EXPECT_EQ(coordinator_.heard<worker_finished>()[0].report.barrier_wait, 500);
  EXPECT_TRUE(coordinator_.heard<worker_finished>()[0].in_block) << "for a checkpoint after its end";
}

TEST_F(HeldDeviceActor, GoesOnAfterItsOwnCheckpointAlone) {
  begin(0, true);
  tell(device_, hold_for_checkpoint{2});
  tell(device_, block_copied{1});
  give_batch();
  EXPECT_EQ(store_->version(), 0U);
  tell(device_, block_copied{2});
  EXPECT_EQ(store_->version(), 1U);
  tell(device_, hold_for_checkpoint{2});
  give_batch();
  EXPECT_EQ(store_->version(), 2U) << "that one is over";
}

TEST_F(HeldDeviceActor, EndsAtOnceIfItIsToldTo) {
  begin(0, true);
  tell(device_, hold_for_checkpoint{1});
  tell(device_, give_up{});
  EXPECT_THAT(coordinator_.heard<worker_finished>(), SizeIs(1));
}

} // namespace
} // namespace mailgrad
