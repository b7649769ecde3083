#include <mailgrad/tests/actors/run/coordinator_slots_fixture.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using testing::CoordinatorSlots;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(CoordinatorSlots, AreGivenToALateWorkerAtOnce) {
  begin();
  device_probe late = new_device();
  join_late(2, 0, late);
  ASSERT_THAT(late.heard<slot_given>(), SizeIs(1));
  EXPECT_EQ(late.heard<slot_given>()[0].so_far.steps, 0U);
  finish(0);
  finish(1);
  EXPECT_THAT(shards_[0].heard<report_shard>(), IsEmpty()) << "the late one trains";
  finish(2);
  report_shards();
  ASSERT_THAT(outcomes_, SizeIs(1));
  EXPECT_EQ(outcomes_[0].workers.size(), 3U);
}

TEST_F(CoordinatorSlots, HaveShardsThatTellTheirTimelinesFromElsewhere) {
  begin();
  testing::listener<trace_taken> shard = listen<trace_taken>();
  for (const std::uint32_t s : {1U, 7U}) {
    trace_piece piece{"", time_->now().count(), {}, 0, {{trace_kind::apply, 1, 1}}};
    messaging::send_as(shard.actor(), coordinator_, caf::make_message(shard_trace_reported{{s}, piece}));
    run();
  }
  EXPECT_THAT(shard.heard<trace_taken>(), SizeIs(2)) << "an answer comes always";
  finish(0);
  finish(1);
  report_shards();
  ASSERT_THAT(outcomes_, SizeIs(1));
  ASSERT_THAT(outcomes_[0].told, SizeIs(1)) << "there is no shard 7";
  EXPECT_EQ(outcomes_[0].told[0].track->name(), "shard 1");
  EXPECT_TRUE(outcomes_[0].told[0].whole);
}

TEST_F(CoordinatorSlots, ThatStayEmptyAreNotReported) {
  begin();
  finish(0);
  finish(1);
  report_shards();
  ASSERT_THAT(outcomes_, SizeIs(1));
  EXPECT_EQ(outcomes_[0].workers.size(), 2U);
  EXPECT_EQ(outcomes_[0].how, run_outcome::ending::completed);
}

TEST_F(CoordinatorSlots, AreRefusedWhereThereIsNone) {
  begin();
  device_probe none = new_device();
  join_late(3, 0, none);
  EXPECT_THAT(none.heard<give_up>(), SizeIs(1)) << "there is no such slot";
  device_probe taken = new_device();
  join_late(0, 0, taken);
  EXPECT_THAT(taken.heard<give_up>(), SizeIs(1)) << "that incarnation has the slot";
  tell(coordinator_, stop_training{"by hand"});
  device_probe tardy = new_device();
  join_late(2, 0, tardy);
  EXPECT_THAT(tardy.heard<give_up>(), SizeIs(1)) << "the run ends";
}

TEST_F(CoordinatorSlots, AreRefusedInARunThatIsNotElastic) {
  begin(0s, false);
  device_probe late = new_device();
  join_late(2, 0, late);
  EXPECT_THAT(late.heard<give_up>(), SizeIs(1));
  lose(0);
  EXPECT_THAT(feeder_.heard<worker_left>(), SizeIs(1));
  EXPECT_THAT(feeder_.heard<share_lost>(), IsEmpty());
}

TEST_F(CoordinatorSlots, AreGivenAfterASwitchInItsEpoch) {
  begin();
  tell(coordinator_, request_switch{"sync", "by hand"});
  device_probe late = new_device();
  join_late(2, 0, late);
  for (std::uint32_t r = 0; r < 2; ++r) tell(coordinator_, worker_paused{{r}, 1, 3, 3});
  ASSERT_THAT(shards_[0].heard<switch_policy>(), SizeIs(1));
  EXPECT_THAT(shards_[0].heard<switch_policy>()[0].present, ElementsAre(1, 1, 0));
  EXPECT_THAT(late.heard<slot_given>(), IsEmpty());
  for (std::uint32_t s = 0; s < 2; ++s) tell(coordinator_, policy_switched{{s}, {1}});
  ASSERT_THAT(late.heard<slot_given>(), SizeIs(1));
  EXPECT_EQ(late.heard<slot_given>()[0].epoch, policy_epoch{1});
  tell(coordinator_, request_switch{"async", "by hand"});
  EXPECT_THAT(late.heard<pause_worker>(), SizeIs(1));
}

} // namespace
} // namespace mailgrad
