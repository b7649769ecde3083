#include <mailgrad/tests/actors/run/coordinator_slots_fixture.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

// What a coordinator does when workers have left their slots and nobody is left to train.

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using testing::CoordinatorSlots;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;
using ::testing::StrEq;

/// A recording says where a switch found the workers, so there must be one.
TEST_F(CoordinatorSlots, LetAWaitingSwitchBeginWhenTheyAreTakenAgain) {
  begin(60s);
  tell(coordinator_, request_switch{"sync", "by hand"});
  for (std::uint32_t r = 0; r < 2; ++r) finish(r, 0, 5, "Ctrl-C");
  EXPECT_THAT(shards_[0].heard<switch_policy>(), IsEmpty()) << "nobody is left";
  device_probe late = new_device();
  join_late(2, 0, late);
  ASSERT_THAT(late.heard<slot_given>(), SizeIs(1));
  EXPECT_EQ(late.heard<slot_given>()[0].epoch.value, 0U);
  ASSERT_THAT(late.heard<pause_worker>(), SizeIs(1));
  tell(coordinator_, worker_paused{{2}, late.heard<pause_worker>()[0].epoch, 0, 0});
  ASSERT_THAT(shards_[0].heard<switch_policy>(), SizeIs(1));
  EXPECT_EQ(shards_[0].heard<switch_policy>()[0].epoch.value, 1U);
  EXPECT_THAT(shards_[0].heard<switch_policy>()[0].present, ElementsAre(0, 0, 1));
}

TEST_F(CoordinatorSlots, WaitForAWorkerSoLong) {
  begin(30s);
  for (std::uint32_t r = 0; r < 2; ++r) {
    lose(r);
    answer(r, 0, 1, 1);
  }
  tell(coordinator_, undealt_counted{4});
  EXPECT_THAT(shards_[0].heard<report_shard>(), IsEmpty());
  time_->advance(7s);
  tell(coordinator_, list_wait_reasons{});
  EXPECT_THAT(
      waits_,
      ElementsAre("the run waits for a worker to train the 4 mini-batches that remain, 30 s at most"));
  tell(coordinator_, wait_over{1});
  report_shards();
  ASSERT_THAT(outcomes_, SizeIs(1));
  EXPECT_EQ(outcomes_[0].how, run_outcome::ending::failed);
  EXPECT_THAT(outcomes_[0].why, HasSubstr("no worker has come"));
  EXPECT_EQ(outcomes_[0].untrained, 4U);
}

TEST_F(CoordinatorSlots, WaitForAWorkerForEver) {
  begin(instant::max());
  for (std::uint32_t r = 0; r < 2; ++r) {
    lose(r);
    answer(r, 0, 1, 1);
  }
  tell(coordinator_, undealt_counted{4});
  time_->advance(24h * 365);
  tell(coordinator_, list_wait_reasons{});
  EXPECT_THAT(waits_, ElementsAre("the run waits for a worker to train the 4 mini-batches that remain"));
  EXPECT_THAT(shards_[0].heard<report_shard>(), IsEmpty());
  tell(coordinator_, stop_training{"by hand"});
  report_shards();
  ASSERT_THAT(outcomes_, SizeIs(1));
  EXPECT_EQ(outcomes_[0].why, "by hand");
}

TEST_F(CoordinatorSlots, EndTheWaitWhenAWorkerComes) {
  begin(30s);
  for (std::uint32_t r = 0; r < 2; ++r) {
    lose(r);
    answer(r, 0, 1, 1);
  }
  tell(coordinator_, undealt_counted{4});
  device_probe late = new_device();
  join_late(2, 0, late);
  EXPECT_THAT(late.heard<slot_given>(), SizeIs(1));
  tell(coordinator_, wait_over{1});
  EXPECT_THAT(shards_[0].heard<report_shard>(), IsEmpty());
  finish(2, 0, 4);
  tell(coordinator_, undealt_counted{0});
  report_shards();
  ASSERT_THAT(outcomes_, SizeIs(1));
  EXPECT_EQ(outcomes_[0].how, run_outcome::ending::completed);
  EXPECT_THAT(outcomes_[0].lost, ElementsAre(true, true, false));
}

TEST_F(CoordinatorSlots, SayThatNobodyWasLeftToTrainTheLastBatches) {
  begin();
  finish(0);
  lose(1);
  answer(1, 0, 3, 3);
  tell(coordinator_, undealt_counted{2});
  report_shards();
  ASSERT_THAT(outcomes_, SizeIs(1));
  EXPECT_EQ(outcomes_[0].how, run_outcome::ending::completed);
  EXPECT_EQ(outcomes_[0].untrained, 2U);
  EXPECT_THAT(
      outcomes_[0].why,
      StrEq(
          "nobody was left to train the 2 mini-batches that remain, since all workers had left or were lost; "
          "let the next run wait for another worker (--when-alone wait) or take checkpoints "
          "(--checkpoint)"));
}

TEST_F(CoordinatorSlots, SayThatOneMiniBatchRemainsWhenTheyHaveLeft) {
  begin();
  for (std::uint32_t r = 0; r < 2; ++r) finish(r, 0, 5, "Ctrl-C");
  tell(coordinator_, undealt_counted{1});
  report_shards();
  ASSERT_THAT(outcomes_, SizeIs(1));
  EXPECT_THAT(
      outcomes_[0].why,
      StartsWith("nobody was left to train the mini-batch that remains, since all workers had left; "));
}

TEST_F(CoordinatorSlots, AskTheFeederOnlyIfSomebodyWentEarly) {
  begin();
  finish(0);
  finish(1);
  EXPECT_THAT(feeder_.heard<count_undealt>(), IsEmpty());
  EXPECT_THAT(shards_[0].heard<report_shard>(), SizeIs(1));
}

TEST_F(CoordinatorSlots, MayBeLeftAndTakenAgain) {
  begin();
  finish(0, 0, 5, "its owner asked for it");
  device_probe back = new_device();
  join_late(0, 1, back);
  ASSERT_THAT(back.heard<slot_given>(), SizeIs(1)) << "it has told everything itself";
  EXPECT_EQ(back.heard<slot_given>()[0].so_far.steps, 5U);
  EXPECT_THAT(shards_[0].heard<tell_trained>(), IsEmpty());
}

TEST_F(CoordinatorSlots, EndWithTheRunWhenAShardDiesWhileItWaits) {
  begin(30s);
  for (std::uint32_t r = 0; r < 2; ++r) {
    lose(r);
    answer(r, 0, 1, 1);
  }
  tell(coordinator_, undealt_counted{4});
  messaging::kill(shards_[1].actor());
  run();
  tell(coordinator_, shard_report{0, 10, {}, {}});
  ASSERT_THAT(outcomes_, SizeIs(1));
  EXPECT_THAT(outcomes_[0].why, HasSubstr("shard 1 is lost"));
}

} // namespace
} // namespace mailgrad
