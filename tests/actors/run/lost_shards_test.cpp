#include <mailgrad/tests/actors/run/coordinator_fixture.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

// What a coordinator does when a shard or the feeder is lost.

namespace mailgrad {
namespace {

using testing::Coordinator;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

TEST_F(Coordinator, TellsWorkersToGiveUpWhenAShardIsLost) {
  join();
  kill(shards_[1].actor());
  for (device_probe& d : devices_) EXPECT_THAT(d.heard<give_up>(), SizeIs(1));
  finish(0);
  finish(1);
  tell(coordinator_, shard_report{0, 3, {}, {}});
  ASSERT_THAT(outcomes_, SizeIs(1));
  EXPECT_EQ(outcomes_[0].how, run_outcome::ending::failed);
  EXPECT_THAT(outcomes_[0].why, HasSubstr("shard 1 is lost"));
}

TEST_F(Coordinator, TellsAWorkerThatJoinsAfterAShardIsLostToGiveUpToo) {
  tell(coordinator_, worker_joined{{0}, devices_[0].actor()});
  kill(shards_[0].actor());
  tell(coordinator_, worker_joined{{1}, devices_[1].actor()});
  EXPECT_THAT(devices_[1].heard<give_up>(), SizeIs(1));
}

TEST_F(Coordinator, TellsWorkersToGiveUpWhenTheFeederIsLost) {
  join();
  kill(feeder_.actor());
  for (device_probe& d : devices_) EXPECT_THAT(d.heard<give_up>(), SizeIs(1));
}

TEST_F(Coordinator, EndsWhenAShardDiesInsteadOfReporting) {
  join();
  finish(0);
  finish(1);
  tell(coordinator_, shard_report{0, 3, {}, {}});
  kill(shards_[1].actor());
  ASSERT_THAT(outcomes_, SizeIs(1));
  EXPECT_EQ(outcomes_[0].how, run_outcome::ending::failed) << "its weights are gone";
  EXPECT_THAT(outcomes_[0].why, StartsWith("shard 1 is lost"));
}

/// Its last update lacked memory when no worker was left to hear of it.
TEST_F(Coordinator, FailsARunWhoseShardSaysSoBeforeItsReport) {
  join();
  finish(0);
  finish(1);
  tell(coordinator_, shard_failed{{0}, "out of memory"});
  report_shards();
  ASSERT_THAT(outcomes_, SizeIs(1));
  EXPECT_EQ(outcomes_[0].how, run_outcome::ending::failed);
  EXPECT_EQ(outcomes_[0].why, "shard 0 has failed: out of memory");
}

TEST_F(Coordinator, CountsAShardThatFailsAfterItsReportOnce) {
  join();
  finish(0);
  finish(1);
  tell(coordinator_, shard_report{0, 6, {}, {}});
  kill(shards_[0].actor());
  EXPECT_THAT(outcomes_, IsEmpty()) << "the other has still to report";
  tell(coordinator_, shard_report{1, 7, {}, {}});
  ASSERT_THAT(outcomes_, SizeIs(1));
  EXPECT_EQ(outcomes_[0].how, run_outcome::ending::completed) << outcomes_[0].why;
  ASSERT_THAT(outcomes_[0].shards, SizeIs(2));
  EXPECT_EQ(outcomes_[0].shards[0].version.value, 6U);
  EXPECT_EQ(outcomes_[0].shards[1].version.value, 7U);
}

TEST_F(Coordinator, KeepsTheReasonOfARunThatWasStoppedWhenAShardDiesInsteadOfReporting) {
  join();
  tell(coordinator_, stop_training{"enough"});
  finish(0);
  finish(1);
  tell(coordinator_, shard_report{0, 3, {}, {}});
  kill(shards_[1].actor());
  ASSERT_THAT(outcomes_, SizeIs(1));
  EXPECT_EQ(outcomes_[0].how, run_outcome::ending::stopped);
  EXPECT_EQ(outcomes_[0].why, "enough");
}

/// They are lost with their process, one message after the other.
TEST_F(Coordinator, NamesShardsTogetherThatAreLostForOneReason) {
  join();
  for (std::uint32_t s = 0; s < 2; ++s) messaging::end_with_words(shards_[s].actor(), "its process is gone");
  run();
  for (std::uint32_t r = 0; r < 2; ++r) finish(r);
  ASSERT_THAT(outcomes_, SizeIs(1));
  EXPECT_EQ(outcomes_[0].why, "shards 0, 1 are lost: its process is gone");
}

TEST_F(Coordinator, KeepsTheFirstReasonOfShardsThatAreLostForTwo) {
  join();
  messaging::end_with_words(shards_[1].actor(), "out of memory");
  messaging::end_with_words(shards_[0].actor(), "its process is gone");
  run();
  for (std::uint32_t r = 0; r < 2; ++r) finish(r);
  ASSERT_THAT(outcomes_, SizeIs(1));
  EXPECT_EQ(outcomes_[0].why, "shard 1 is lost: out of memory");
}

} // namespace
} // namespace mailgrad
