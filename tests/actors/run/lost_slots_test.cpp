#include <mailgrad/tests/actors/run/coordinator_slots_fixture.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

// What a coordinator makes of the slots of workers that are lost, and what it tells others of them.

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using testing::CoordinatorSlots;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(CoordinatorSlots, AreGivenBackWhenTheShardsHaveToldWhatTheyTookOfALostWorker) {
  begin();
  lose(0);
  for (shard_probe& s : shards_) EXPECT_THAT(s.heard<tell_trained>(), SizeIs(1));
  EXPECT_THAT(feeder_.heard<share_lost>(), SizeIs(1));
  device_probe back = new_device();
  join_late(0, 1, back);
  EXPECT_THAT(back.heard<slot_given>(), IsEmpty());
  tell(coordinator_, list_wait_reasons{});
  EXPECT_THAT(waits_, ElementsAre(HasSubstr("lost worker 0 wait to hear what shards 0, 1 took")));
  answer(0, 0, 3, 4);
  ASSERT_THAT(feeder_.heard<deal_again>(), SizeIs(1));
  EXPECT_EQ(feeder_.heard<deal_again>()[0].trained, 4U) << "the most that any shard has judged";
  ASSERT_THAT(back.heard<slot_given>(), SizeIs(1));
  EXPECT_EQ(back.heard<slot_given>()[0].so_far.produced, 4U);
  EXPECT_EQ(back.heard<slot_given>()[0].so_far.samples, 32U);
}

TEST_F(CoordinatorSlots, SayWhatWasSentToALostWorkerInVain) {
  begin();
  for (std::uint32_t r = 0; r < 2; ++r) lose(r);
  tell(coordinator_, stop_training{"by hand"});
  for (std::uint32_t s = 0; s < 2; ++s)
    for (std::uint32_t r = 0; r < 2; ++r) tell(coordinator_, trained_reported{{s}, {r}, {0}, 3, 3, 24});
  report_shards();
  tell(coordinator_, share_ended{{0}, {0}, 3, 0});
  EXPECT_THAT(outcomes_, IsEmpty()) << "the feeder has not told of worker 1";
  tell(coordinator_, share_ended{{1}, {0}, 0, 2});
  tell(coordinator_, share_ended{{1}, {0}, 0, 7});
  ASSERT_THAT(outcomes_, SizeIs(1));
  EXPECT_THAT(outcomes_[0].lost_batches, ElementsAre(0, 2));
  EXPECT_EQ(outcomes_[0].workers[0].local_batches, 3U);
  EXPECT_EQ(outcomes_[0].workers[1].local_batches, 0U);
}

TEST_F(CoordinatorSlots, KeepWhatALostWorkerSaidThatItHadWaited) {
  begin();
  tell(coordinator_, worker_progress{.worker = {0}, .steps = 5, .sums = {1, 2, 3, 4}});
  lose(0);
  answer(0, 0, 5, 5);
  device_probe back = new_device();
  join_late(0, 1, back);
  ASSERT_THAT(back.heard<slot_given>(), SizeIs(1));
  EXPECT_EQ(back.heard<slot_given>()[0].so_far.waited(), 6) << "the next one adds its own";
  tell(coordinator_, worker_progress{.worker = {0}, .steps = 5, .sums = {10, 20, 30, 40}});
  messaging::kill(back.actor());
  run();
  answer(0, 1, 5, 5);
  finish(1);
  tell(coordinator_, undealt_counted{0});
  report_shards();
  ASSERT_THAT(outcomes_, SizeIs(1));
  EXPECT_EQ(outcomes_[0].workers[0].barrier_wait, 11);
  EXPECT_EQ(outcomes_[0].workers[0].bound_wait, 22);
  EXPECT_EQ(outcomes_[0].workers[0].feeder_wait, 33);
  EXPECT_EQ(outcomes_[0].workers[0].local_bytes, 44U);
}

TEST_F(CoordinatorSlots, KeepWhatALostWorkerSaidThatItHadWaitedWhereNoneComesBack) {
  begin(instant{0}, false);
  tell(coordinator_, worker_progress{.worker = {0}, .steps = 5, .sums = {1, 2, 3, 4}});
  lose(0);
  finish(1);
  report_shards();
  ASSERT_THAT(outcomes_, SizeIs(1));
  EXPECT_EQ(outcomes_[0].workers[0].waited(), 6);
}

/// As on a machine that had them all.
TEST_F(CoordinatorSlots, CountWhatAWorkerHadToldIfNoShardIsLeftToSayIt) {
  begin();
  tell(coordinator_, worker_progress{.worker = {0}, .steps = 5, .samples = 40});
  tell(coordinator_, worker_progress{.worker = {0}, .steps = 2, .samples = 16});
  for (const shard_probe& s : shards_) messaging::kill(s.actor());
  run();
  lose(0);
  finish(1, 0, 6);
  ASSERT_THAT(feeder_.heard<deal_again>(), SizeIs(1));
  EXPECT_EQ(feeder_.heard<deal_again>()[0].trained, 7U);
  tell(coordinator_, share_ended{{0}, {0}, 9, 0});
  ASSERT_THAT(outcomes_, SizeIs(1));
  EXPECT_EQ(outcomes_[0].workers[0].steps, 7U);
  EXPECT_EQ(outcomes_[0].workers[0].local_batches, 7U) << "no more than its steps";
  EXPECT_EQ(outcomes_[0].workers[0].produced, 7U);
  EXPECT_EQ(outcomes_[0].workers[0].samples, 56U);
  EXPECT_EQ(outcomes_[0].workers[1].steps, 6U);
}

TEST_F(CoordinatorSlots, CountWhatAWorkerHadToldAlsoIfItWasLostBeforeTheShards) {
  begin();
  tell(coordinator_, worker_progress{.worker = {0}, .steps = 5, .samples = 40});
  lose(0);
  for (const shard_probe& s : shards_) messaging::kill(s.actor());
  run();
  finish(1, 0, 6);
  ASSERT_THAT(feeder_.heard<deal_again>(), SizeIs(1));
  EXPECT_EQ(feeder_.heard<deal_again>()[0].trained, 5U);
  tell(coordinator_, share_ended{{0}, {0}});
  ASSERT_THAT(outcomes_, SizeIs(1));
  EXPECT_EQ(outcomes_[0].workers[0].steps, 5U);
}

/// As of a parameter host that is not as it should be.
TEST_F(CoordinatorSlots, TakeNoSecondWordOfAnEarlierIncarnation) {
  begin();
  lose(0);
  answer(0, 0, 3, 2);
  device_probe back = new_device();
  join_late(0, 1, back);
  messaging::kill(back.actor());
  run();
  answer(0, 0, 9, 9);
  EXPECT_THAT(feeder_.heard<deal_again>(), SizeIs(1)) << "nobody has told of the later one";
  answer(0, 1, 2, 1);
  ASSERT_THAT(feeder_.heard<deal_again>(), SizeIs(2));
  EXPECT_EQ(feeder_.heard<deal_again>()[1].incarnation, incarnation_number{1});
  EXPECT_EQ(feeder_.heard<deal_again>()[1].trained, 2U);
}

TEST_F(CoordinatorSlots, AreTakenFromAnIncarnationThatHasNotBeenMissed) {
  begin();
  device_probe back = new_device();
  join_late(1, 1, back);
  EXPECT_THAT(devices_[1].heard<give_up>(), SizeIs(1));
  EXPECT_THAT(shards_[0].heard<worker_left>(), SizeIs(1));
  answer(1, 0, 2, 2);
  EXPECT_THAT(back.heard<slot_given>(), SizeIs(1));
  finish(1, 0); // what it says now comes too late
  messaging::kill(devices_[1].actor());
  run();
  finish(0);
  EXPECT_THAT(shards_[0].heard<report_shard>(), IsEmpty()) << "the later incarnation trains";
  finish(1, 1, 9);
  report_shards();
  ASSERT_THAT(outcomes_, IsEmpty()) << "the feeder has not told whether anything is left";
  tell(coordinator_, undealt_counted{0});
  report_shards();
  ASSERT_THAT(outcomes_, SizeIs(1));
  EXPECT_EQ(outcomes_[0].workers[1].steps, 9U);
  EXPECT_EQ(outcomes_[0].how, run_outcome::ending::completed);
}

/// A switch is told with the steps of all workers, as a checkpoint is.
TEST_F(CoordinatorSlots, CountTheStepsOfLostWorkersAtASwitch) {
  for (const std::uint64_t before : {0U, 100U}) {
    steps_before_ = before;
    for (device_probe& d : devices_) d = new_device();
    begin();
    lose(0);
    tell(coordinator_, request_switch{"sync", "by hand"});
    tell(coordinator_, worker_paused{{1}, 1, 3, 3});
    answer(0, 0, 4, 4);
    for (std::uint32_t s = 0; s < 2; ++s) tell(coordinator_, policy_switched{{s}, {1}});
    finish(1);
    tell(coordinator_, undealt_counted{0});
    report_shards();
    ASSERT_FALSE(outcomes_.empty());
    ASSERT_THAT(outcomes_.back().switches, SizeIs(1));
    EXPECT_EQ(outcomes_.back().switches[0].step, before + 7);
    EXPECT_EQ(outcomes_.back().workers[0].steps, 4U);
  }
}

/// Who is lost has told what it did until then. An answer goes to each piece, so that no worker waits for
/// one.
TEST_F(CoordinatorSlots, KeepTheTimelinesThatTheirWorkersTell) {
  begin();
  time_->advance(1s);
  tell_trace(0, 0, devices_[0]);
  EXPECT_THAT(devices_[0].heard<trace_taken>(), SizeIs(1));
  lose(0);
  answer(0, 0, 3, 3);
  device_probe back = new_device();
  join_late(0, 1, back);
  tell_trace(0, 0, devices_[1]); // of a worker that is gone
  tell_trace(0, 1, back);
  EXPECT_THAT(back.heard<trace_taken>(), SizeIs(1));
  finish(0, 1);
  finish(1);
  tell(coordinator_, undealt_counted{0});
  report_shards();
  ASSERT_THAT(outcomes_, SizeIs(1));
  ASSERT_THAT(outcomes_[0].told, SizeIs(2));
  EXPECT_FALSE(outcomes_[0].told[0].whole);
  EXPECT_THAT(outcomes_[0].told[0].track->events(), SizeIs(1));
  EXPECT_TRUE(outcomes_[0].told[1].whole);
}

TEST_F(CoordinatorSlots, AreForgottenOfAWorkerThatDiesBeforeItTakesOne) {
  begin();
  lose(0);
  device_probe back = new_device();
  join_late(0, 1, back);
  messaging::kill(back.actor());
  run();
  answer(0, 0, 1, 1);
  finish(1);
  tell(coordinator_, undealt_counted{0});
  report_shards();
  EXPECT_THAT(outcomes_, SizeIs(1)) << "nobody waits for the dead";
}

/// Its last message may not have come there, and the shard would wait for it for ever.
TEST_F(CoordinatorSlots, TellAShardThatItsConnectionWithAWorkerThatFinishedHasEnded) {
  begin();
  finish(0);
  part(1, 0);
  EXPECT_THAT(shards_[0].heard<worker_left>(), IsEmpty()) << "gradients may be on their way to it";
  ASSERT_THAT(shards_[1].heard<worker_left>(), SizeIs(1));
  EXPECT_EQ(shards_[1].heard<worker_left>()[0].worker, rank{0});
}

TEST_F(CoordinatorSlots, TellAShardOfAnEndedConnectionNoEarlierThanTheWorkerIsAccountedFor) {
  begin();
  part(0, 0);
  part(1, 0);
  for (shard_probe& s : shards_) EXPECT_THAT(s.heard<worker_left>(), IsEmpty());
  finish(0);
  for (shard_probe& s : shards_) EXPECT_THAT(s.heard<worker_left>(), SizeIs(1));
}

/// Or else the run would wait for ever, if that shard was lost later.
TEST_F(CoordinatorSlots, TakeNoReportOfAShardThatWasNotAskedForIt) {
  begin();
  report_shards();
  for (std::uint32_t r = 0; r < 2; ++r) finish(r);
  EXPECT_THAT(outcomes_, IsEmpty()) << "the shards are asked now";
  report_shards();
  EXPECT_THAT(outcomes_, SizeIs(1));
}

/// A process that says it without end fills no memory of this one.
TEST_F(CoordinatorSlots, KeepOncePerShardThatAConnectionHasEnded) {
  begin();
  for (int i = 0; i < 100; ++i) part(0, 0);
  part(1, 0);
  finish(0);
  for (shard_probe& s : shards_) EXPECT_THAT(s.heard<worker_left>(), SizeIs(1));
}

TEST_F(CoordinatorSlots, TellNoShardOfAConnectionOfAWorkerThatHasNoSlotYet) {
  begin();
  lose(0);
  answer(0, 0, 3, 3);
  for (shard_probe& s : shards_) s.heard<worker_left>().clear();
  part(0, 0, 1);
  part(0, 2);
  part(0, 7);
  EXPECT_THAT(shards_[0].heard<worker_left>(), IsEmpty()) << "it would leave before it has come";
  part(0, 0);
  EXPECT_THAT(shards_[0].heard<worker_left>(), SizeIs(1));
}

/// A shard that goes on without the lost one lets others ask for batches, and they must not hear that there
/// are no more.
TEST_F(CoordinatorSlots, TellTheFeederOfALostWorkerBeforeTheShards) {
  begin();
  messaging::kill(devices_[0].actor());
  while (shards_[0].heard<worker_left>().empty() && shards_[1].heard<worker_left>().empty())
    ASSERT_TRUE(step());
  EXPECT_THAT(feeder_.heard<share_lost>(), SizeIs(1));
}

} // namespace
} // namespace mailgrad
