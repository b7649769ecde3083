#include <mailgrad/tests/actors/run/coordinator_fixture.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>

namespace mailgrad {
namespace {

using ::testing::AllOf;
using testing::Coordinator;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(Coordinator, AsksTheShardsWhenEveryWorkerIsAccountedFor) {
  join();
  finish(1);
  EXPECT_EQ(shards_asked(), 0U);
  finish(0);
  EXPECT_EQ(shards_asked(), 1U) << "the first shard may still have something to tell the others";
  tell(coordinator_, shard_report{0, 10, {}, {}});
  EXPECT_EQ(shards_asked(), 2U);
  EXPECT_THAT(outcomes_, IsEmpty());
}

TEST_F(Coordinator, EndsOnceAllShardsHaveReported) {
  join();
  finish(0);
  finish(1);
  tell(coordinator_, shard_report{1, 7, {}, {}});
  EXPECT_THAT(outcomes_, IsEmpty());
  tell(coordinator_, shard_report{0, 6, {}, {}});
  ASSERT_THAT(outcomes_, SizeIs(1));
  const run_outcome& o = outcomes_[0];
  EXPECT_EQ(o.how, run_outcome::ending::completed);
  EXPECT_EQ(o.why, "");
  EXPECT_EQ(o.shards[0].version.value, 6U);
  EXPECT_EQ(o.shards[1].version.value, 7U);
  EXPECT_EQ(o.workers[1].produced, 5U);
  EXPECT_THAT(o.lost, ElementsAre(false, false));
}

TEST_F(Coordinator, EndsExactlyOnceWhateverComesLater) {
  join();
  finish(0);
  finish(1);
  report_shards();
  report_shards();
  finish(0);
  for (const device_probe& d : devices_) kill(d.actor());
  tell(coordinator_, stop_training{"too late"});
  EXPECT_THAT(outcomes_, SizeIs(1));
}

TEST_F(Coordinator, DoesNotTakeAFinishedWorkerForLost) {
  join();
  finish(0);
  kill(devices_[0].actor());
  for (shard_probe& s : shards_) EXPECT_THAT(s.heard<worker_left>(), IsEmpty());
  finish(1);
  report_shards();
  ASSERT_THAT(outcomes_, SizeIs(1));
  EXPECT_THAT(outcomes_[0].lost, ElementsAre(false, false));
}

TEST_F(Coordinator, CountsTheLossesThatALostWorkerHasToldOf) {
  join();
  const auto two_steps = [](std::uint32_t worker, double loss_sum) {
    return worker_progress{{worker}, 2, 16, std::bit_cast<std::uint64_t>(loss_sum)};
  };
  tell(coordinator_, two_steps(0, 160));
  tell(coordinator_, two_steps(1, 48));
  kill(devices_[1].actor());
  finish(0);
  report_shards();
  ASSERT_THAT(outcomes_, SizeIs(1));
  EXPECT_EQ(outcomes_[0].workers[0].last_losses.samples(), 0U) << "its report says so";
  EXPECT_EQ(outcomes_[0].workers[1].last_losses.samples(), 16U);
  EXPECT_DOUBLE_EQ(outcomes_[0].workers[1].last_losses.sum(), 48);
}

TEST_F(Coordinator, TellsEverybodyThatAWorkerIsLostAndEndsWithoutIt) {
  join();
  kill(devices_[1].actor());
  for (shard_probe& s : shards_) {
    ASSERT_THAT(s.heard<worker_left>(), SizeIs(1));
    EXPECT_EQ(s.heard<worker_left>()[0].worker, rank{1});
  }
  EXPECT_THAT(feeder_.heard<worker_left>(), SizeIs(1));
  finish(0);
  report_shards();
  ASSERT_THAT(outcomes_, SizeIs(1));
  EXPECT_THAT(outcomes_[0].lost, ElementsAre(false, true));
  EXPECT_EQ(outcomes_[0].how, run_outcome::ending::completed);
}

TEST_F(Coordinator, FailsWhenNoWorkerIsLeft) {
  join();
  kill(devices_[0].actor());
  kill(devices_[1].actor());
  report_shards();
  ASSERT_THAT(outcomes_, SizeIs(1));
  EXPECT_EQ(outcomes_[0].how, run_outcome::ending::failed);
  EXPECT_THAT(outcomes_[0].why, HasSubstr("all workers are lost"));
}

TEST_F(Coordinator, NoticesAWorkerThatDiedBeforeItJoined) {
  kill(devices_[1].actor());
  join();
  finish(0);
  report_shards();
  ASSERT_THAT(outcomes_, SizeIs(1));
  EXPECT_THAT(outcomes_[0].lost, ElementsAre(false, true));
}

TEST_F(Coordinator, NamesWorkerStepAndLastFiniteLossWhenTheLossDiverges) {
  join();
  tell(coordinator_, loss_diverged{report_of(1, 17, 2.5F), 17});
  EXPECT_THAT(feeder_.heard<stop_dealing>(), SizeIs(1)) << "the others stop too";
  finish(0);
  report_shards();
  ASSERT_THAT(outcomes_, SizeIs(1));
  EXPECT_EQ(outcomes_[0].how, run_outcome::ending::diverged);
  EXPECT_THAT(outcomes_[0].why,
              AllOf(HasSubstr("worker 1"), HasSubstr("step 17"), HasSubstr("last finite loss was 2.5000")));
}

TEST_F(Coordinator, SaysSoWhenThereWasNoFiniteLossBefore) {
  join();
  tell(coordinator_, loss_diverged{report_of(0, 1), 1});
  finish(1);
  report_shards();
  EXPECT_THAT(outcomes_.at(0).why, HasSubstr("no finite loss before"));
}

TEST_F(Coordinator, EndsARunWhoseLossHasGrownToNonsense) {
  join();
  const auto tell_loss = [this](std::uint32_t worker, double loss) {
    tell(coordinator_, worker_progress{{worker}, 6, 48, std::bit_cast<std::uint64_t>(48 * loss)});
  };
  tell_loss(0, 2);
  for (int i = 0; i < 3; ++i) {
    tell_loss(0, 1e15);
    EXPECT_THAT(feeder_.heard<stop_dealing>(), IsEmpty());
    tell_loss(1, 1e15);
  }
  EXPECT_THAT(feeder_.heard<stop_dealing>(), SizeIs(1));
  finish(0);
  finish(1);
  report_shards();
  ASSERT_THAT(outcomes_, SizeIs(1));
  EXPECT_EQ(outcomes_[0].how, run_outcome::ending::diverged);
  EXPECT_THAT(outcomes_[0].why,
              AllOf(HasSubstr("nonsense: 1e+15 or more in 36 steps in a row, above the limit of 2000")));
  EXPECT_EQ(outcomes_[0].nonsense_above, 2000);
}

TEST_F(Coordinator, GoesOnWhenALossHasSpiked) {
  join();
  const auto tell_loss = [this](double loss) {
    tell(coordinator_, worker_progress{{0}, 40, 8, std::bit_cast<std::uint64_t>(8 * loss)});
  };
  for (const double loss : {2.0, 1e15, 1e15, 1e15, 1e15, 1e15, 3.0, 1e15, 1e15, 1e15, 1e15, 1e15, 2.0})
    tell_loss(loss);
  EXPECT_THAT(feeder_.heard<stop_dealing>(), IsEmpty());
  finish(0);
  finish(1);
  report_shards();
  EXPECT_EQ(outcomes_.at(0).how, run_outcome::ending::completed);
}

TEST_F(Coordinator, KeepsTheFirstReasonOfSeveral) {
  join();
  tell(coordinator_, stop_training{"enough"});
  tell(coordinator_, loss_diverged{report_of(1, 3, 1), 3});
  finish(0);
  report_shards();
  EXPECT_EQ(outcomes_.at(0).how, run_outcome::ending::stopped);
  EXPECT_EQ(outcomes_.at(0).why, "enough");
}

TEST_F(Coordinator, SaysWhichWorkerFailedAndWhy) {
  join();
  tell(coordinator_, worker_failed{report_of(0, 4), 5, "out of memory"});
  finish(1);
  report_shards();
  EXPECT_EQ(outcomes_.at(0).how, run_outcome::ending::failed);
  EXPECT_THAT(outcomes_.at(0).why, AllOf(HasSubstr("worker 0"), HasSubstr("out of memory")));
}

TEST_F(Coordinator, StopsTheFeederWhenItIsAskedToStop) {
  join();
  tell(coordinator_, stop_training{"by hand"});
  EXPECT_THAT(feeder_.heard<stop_dealing>(), SizeIs(1));
  EXPECT_THAT(outcomes_, IsEmpty()) << "steps that have begun are finished";
}

// One shard has switched, both workers are under way again, and one ends before the other shard's answer
// comes.
TEST_F(Coordinator, CountsWhatIsTrainedBeforeASwitchAndNotWhatALeaverTrainsAfterIt) {
  auto devices = std::array{listen<pause_worker>(), listen<pause_worker>()};
  auto shards = std::array{listen<switch_policy, report_shard, worker_left>(),
                           listen<switch_policy, report_shard, worker_left>()};
  auto feeder = listen<go_on_dealing, worker_left>();
  coordinator_options options;
  options.workers = 2;
  options.shards = {shards[0].actor(), shards[1].actor()};
  options.feeder = feeder.actor();
  options.on_end = [this](run_outcome outcome) { outcomes_.push_back(std::move(outcome)); };
  const caf::actor switching = start<coordinator>(std::move(options));
  for (std::uint32_t r = 0; r < 2; ++r) tell(switching, worker_joined{{r}, devices[r].actor()});
  tell(switching, request_switch{"sync", "by hand"});
  tell(switching, worker_paused{{0}, 1, 3, 3});
  tell(switching, worker_paused{{1}, 1, 4, 4});
  tell(switching, policy_switched{0, 1});
  worker_report leaver = report_of(1);
  leaver.steps = 6;
  tell(switching, worker_finished{leaver});
  tell(switching, policy_switched{1, 1});
  tell(switching, worker_finished{report_of(0)});
  for (std::uint32_t s = 0; s < 2; ++s) tell(switching, shard_report{s, 10, {}, {}});
  ASSERT_EQ(outcomes_.size(), 1U);
  ASSERT_EQ(outcomes_[0].switches.size(), 1U);
  EXPECT_EQ(outcomes_[0].switches[0].step, 7U);
}

TEST_F(Coordinator, AsksEverybodyWhoMayWaitAndPassesTheAnswersOn) {
  join();
  finish(1);
  tell(coordinator_, list_wait_reasons{});
  for (shard_probe& s : shards_) EXPECT_THAT(s.heard<list_wait_reasons>(), SizeIs(1));
  EXPECT_THAT(devices_[0].heard<list_wait_reasons>(), SizeIs(1));
  EXPECT_THAT(devices_[1].heard<list_wait_reasons>(), IsEmpty()) << "it has finished";
  tell(coordinator_, wait_reason{"worker 0 waits for a batch", 5});
  EXPECT_THAT(waits_, ElementsAre("worker 0 waits for a batch"));
}

} // namespace
} // namespace mailgrad
