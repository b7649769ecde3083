#include <mailgrad/tests/actors/worker/device_actor_fixture.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

namespace mailgrad {
namespace {

using testing::DeviceActor;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// A device actor that tells its timeline to a coordinator in another process.
class ReportingDeviceActor : public DeviceActor {
protected:
  ReportingDeviceActor() {
    trace_ = std::make_shared<trace_track>("worker 3", 100, time_->now());
    tells_trace_ = "cpu:0";
  }
  std::size_t pieces() { return coordinator_.heard<trace_reported>().size(); }
  std::size_t reports() { return coordinator_.heard<worker_finished>().size(); }
  void begin_and_step() {
    begin();
    give_all_weights(0);
    give_batch();
    tell(device_, data_exhausted{});
    give_all_weights(1);
  }
};

/// What is behind the report would not be counted as told.
TEST_F(ReportingDeviceActor, ReportsWhenItHasToldTheRestOfItsTimeline) {
  begin_and_step();
  EXPECT_THAT(shards_[0].heard<worker_left>(), SizeIs(1)) << "nobody waits for its timeline";
  EXPECT_THAT(feeder_.heard<worker_left>(), SizeIs(1));
  EXPECT_EQ(pieces(), 1U);
  EXPECT_EQ(reports(), 0U) << "the first piece is not answered";
  const auto waits = ask<wait_reason>(device_, list_wait_reasons{}).heard<wait_reason>();
  ASSERT_THAT(waits, SizeIs(1));
  EXPECT_EQ(waits[0].what, "worker 3 waits for the coordinator to take its timeline");
  tell(device_, trace_taken{});
  EXPECT_EQ(pieces(), 2U);
  ASSERT_EQ(reports(), 1U);
  EXPECT_EQ(coordinator_.heard<worker_finished>()[0].report.steps, 1U);
}

TEST_F(ReportingDeviceActor, ReportsWithoutTheRestIfItIsToldToGiveUp) {
  begin_and_step();
  tell(device_, give_up{});
  EXPECT_EQ(reports(), 1U);
  EXPECT_EQ(pieces(), 1U);
  tell(device_, give_up{});
  EXPECT_EQ(reports(), 1U);
}

/// Nobody answers it any more, as when the connection to the server is lost.
TEST_F(ReportingDeviceActor, EndsIfTheCoordinatorIsNoMore) {
  begin_and_step();
  EXPECT_FALSE(runner_.expired());
  messaging::kill(coordinator_.actor());
  run();
  EXPECT_TRUE(runner_.expired()) << "the actor has ended";
}

TEST_F(ReportingDeviceActor, EndsIfTheCoordinatorWasNoMoreBefore) {
  begin();
  messaging::kill(coordinator_.actor());
  run();
  tell(device_, give_up{});
  EXPECT_TRUE(runner_.expired());
}

} // namespace
} // namespace mailgrad
