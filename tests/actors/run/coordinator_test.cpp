#include <mailgrad/actors/run/feeder.hpp>
#include <mailgrad/tests/actors/run/coordinator_fixture.hpp>

#include <gmock/gmock.h>

#include <bit>

namespace mailgrad {
namespace {

using ::testing::AllOf, ::testing::ElementsAre, ::testing::HasSubstr, ::testing::IsEmpty, ::testing::SizeIs,
    ::testing::StartsWith;
using testing::only;
using ending = run_outcome::ending;

class Coordinator : public testing::CoordinatorTest {
protected:
  void begin() {
    start_coordinator([](coordinator_options& o) { o.divergence = {1, 2}; });
    join();
  }
  std::size_t shards_asked() {
    std::size_t asked = 0;
    for (shard_probe& s : shards_) asked += s.heard<report_shard>().size();
    return asked;
  }
  /// The worker has had this loss in so many steps of 8 samples.
  void tell_loss(std::uint32_t worker, std::uint64_t steps, double loss) {
    const std::uint64_t samples = 8 * steps;
    const auto sum = std::bit_cast<std::uint64_t>(static_cast<double>(samples) * loss);
    tell(coordinator_, worker_progress{{worker}, steps, samples, sum});
  }
  /// An elastic run that takes checkpoints.
  void begin_keeping(std::size_t shards = 2, instant waits = instant{0}) {
    start_coordinator([&](coordinator_options& o) {
      o.elastic = true;
      o.waits_for_workers = waits;
      o.shards.resize(shards);
      o.checkpoints.writer = writer_.actor();
    });
    join();
  }
  /// All of these send their parts of the first checkpoint.
  void send_parts(const std::vector<std::string>& names) {
    for (const std::string& name : names)
      tell(coordinator_, checkpoint_part{1, name, std::make_shared<saved_fields>()});
  }
  /// That of the feeder says that the workers had trained 3 and 4 batches, of 24 and 32 samples.
  void send_part_of_feeder() {
    feeder_position position;
    position.trained = {3, 4};
    std::vector<std::uint64_t> samples{24, 32};
    const auto fields = std::make_shared<saved_fields>();
    fields->field("feeder", position);
    fields->field(samples_at_markers, samples);
    tell(coordinator_, checkpoint_part{1, "feeder", fields});
  }
  /// Worker 0 is lost, and all is told of it.
  void lose_first(std::uint32_t shards) {
    lose(0);
    for (std::uint32_t s = 0; s < shards; ++s) tell(coordinator_, trained_reported{{s}, {0}, {}, 3, 3, 24});
    tell(coordinator_, share_ended{{0}, {}, 3, 0});
  }
  void expect_ended(ending how, const std::string& why) {
    EXPECT_EQ(outcome().how, how);
    EXPECT_THAT(outcome().why, HasSubstr(why));
  }

  testing::listener<write_checkpoint> writer_ = listen<write_checkpoint>();
};

TEST_F(Coordinator, AsksTheShardsWhenEveryWorkerIsAccountedFor) {
  begin();
  finish(1);
  EXPECT_EQ(shards_asked(), 0U);
  finish(0);
  EXPECT_EQ(shards_asked(), 1U) << "the first shard may still have something to tell the others";
  report_shard_of(0);
  EXPECT_EQ(shards_asked(), 2U);
  EXPECT_THAT(outcomes_, IsEmpty());
}

TEST_F(Coordinator, EndsOnceAllShardsHaveReported) {
  begin();
  finish(0);
  finish(1);
  report_shard_of(1, 7);
  EXPECT_THAT(outcomes_, IsEmpty());
  report_shard_of(0, 6);
  const run_outcome& o = outcome();
  EXPECT_EQ(o.how, ending::completed);
  EXPECT_EQ(o.why, "");
  EXPECT_EQ(o.shards[0].version.value, 6U);
  EXPECT_EQ(o.shards[1].version.value, 7U);
  EXPECT_EQ(o.workers[1].produced, 5U);
  EXPECT_THAT(o.lost, ElementsAre(false, false));
  report_shards(); // what comes now changes nothing
  finish(0);
  for (const std::uint32_t r : {0U, 1U}) lose(r);
  tell(coordinator_, stop_training{"too late"});
  EXPECT_THAT(outcomes_, SizeIs(1));
}

TEST_F(Coordinator, DoesNotTakeAFinishedWorkerForLost) {
  begin();
  finish(0);
  lose(0);
  for (shard_probe& s : shards_) EXPECT_THAT(s.heard<worker_left>(), IsEmpty());
  EXPECT_THAT(end({1}).lost, ElementsAre(false, false));
}

TEST_F(Coordinator, CountsTheLossesThatALostWorkerHasToldOf) {
  begin();
  tell_loss(0, 2, 10);
  tell_loss(1, 2, 3);
  lose(1);
  const std::vector<worker_report>& workers = end({0}).workers;
  EXPECT_EQ(workers[0].last_losses.samples(), 0U) << "its report says so";
  EXPECT_EQ(workers[1].last_losses.samples(), 16U);
  EXPECT_DOUBLE_EQ(workers[1].last_losses.sum(), 48);
}

TEST_F(Coordinator, TellsEverybodyThatAWorkerIsLostAndEndsWithoutIt) {
  begin();
  lose(1);
  for (shard_probe& s : shards_) EXPECT_EQ(only(s.heard<worker_left>()).worker, rank{1});
  EXPECT_THAT(feeder_.heard<worker_left>(), SizeIs(1));
  EXPECT_THAT(end({0}).lost, ElementsAre(false, true));
  EXPECT_EQ(outcome().how, ending::completed);
}

TEST_F(Coordinator, FailsWhenNoWorkerIsLeft) {
  begin();
  for (const std::uint32_t r : {0U, 1U}) lose(r);
  end();
  expect_ended(ending::failed, "all workers are lost");
}

TEST_F(Coordinator, NoticesAWorkerThatDiedBeforeItJoined) {
  lose(1);
  begin();
  EXPECT_THAT(end({0}).lost, ElementsAre(false, true));
}

TEST_F(Coordinator, NamesWorkerStepAndLastFiniteLossWhenTheLossDiverges) {
  begin();
  tell(coordinator_, loss_diverged{report_of(1, 17, 2.5F), 17});
  EXPECT_THAT(feeder_.heard<stop_dealing>(), SizeIs(1)) << "the others stop too";
  EXPECT_EQ(end({0}).how, ending::diverged);
  EXPECT_THAT(outcome().why,
              AllOf(HasSubstr("worker 1"), HasSubstr("step 17"), HasSubstr("last finite loss was 2.5000")));
}

TEST_F(Coordinator, SaysSoWhenThereWasNoFiniteLossBefore) {
  begin();
  tell(coordinator_, loss_diverged{report_of(0, 1), 1});
  EXPECT_THAT(end({1}).why, HasSubstr("no finite loss before"));
}

TEST_F(Coordinator, EndsARunWhoseLossHasGrownToNonsense) {
  begin();
  tell_loss(0, 6, 2);
  for (int i = 0; i < 3; ++i) {
    tell_loss(0, 6, 1e15);
    EXPECT_THAT(feeder_.heard<stop_dealing>(), IsEmpty());
    tell_loss(1, 6, 1e15);
  }
  EXPECT_THAT(feeder_.heard<stop_dealing>(), SizeIs(1));
  EXPECT_EQ(end({0, 1}).nonsense_above, 2000);
  expect_ended(ending::diverged, "nonsense: 1e+15 or more in 36 steps in a row, above the limit of 2000");
}

TEST_F(Coordinator, GoesOnWhenALossHasSpiked) {
  begin();
  for (const double loss : {2.0, 1e15, 1e15, 1e15, 1e15, 1e15, 3.0, 1e15, 1e15, 1e15, 1e15, 1e15, 2.0})
    tell(coordinator_, worker_progress{{0}, 40, 8, std::bit_cast<std::uint64_t>(8 * loss)});
  EXPECT_THAT(feeder_.heard<stop_dealing>(), IsEmpty());
  EXPECT_EQ(end({0, 1}).how, ending::completed);
}

TEST_F(Coordinator, KeepsTheFirstReasonOfSeveral) {
  begin();
  tell(coordinator_, stop_training{"enough"});
  EXPECT_THAT(feeder_.heard<stop_dealing>(), SizeIs(1));
  EXPECT_THAT(outcomes_, IsEmpty()) << "steps that have begun are finished";
  tell(coordinator_, loss_diverged{report_of(1, 3, 1), 3});
  EXPECT_EQ(end({0}).why, "enough");
  EXPECT_EQ(outcome().how, ending::stopped);
}

TEST_F(Coordinator, SaysWhichWorkerFailedAndWhy) {
  begin();
  tell(coordinator_, worker_failed{report_of(0, 4), 5, "out of memory"});
  EXPECT_THAT(end({1}).why, AllOf(HasSubstr("worker 0"), HasSubstr("out of memory")));
  EXPECT_EQ(outcome().how, ending::failed);
}

// One shard has switched, both workers are under way again, and one ends before the other shard's answer
// comes.
TEST_F(Coordinator, CountsWhatIsTrainedBeforeASwitchAndNotWhatALeaverTrainsAfterIt) {
  begin();
  tell(coordinator_, request_switch{"sync", "by hand"});
  tell(coordinator_, worker_paused{{0}, 1, 3, 3});
  tell(coordinator_, worker_paused{{1}, 1, 4, 4});
  tell(coordinator_, policy_switched{0, 1});
  finish(1, 0, 6);
  tell(coordinator_, policy_switched{1, 1});
  EXPECT_EQ(only(end({0}).switches).step, 7U);
}

TEST_F(Coordinator, AsksEverybodyWhoMayWaitAndPassesTheAnswersOn) {
  begin();
  finish(1);
  tell(coordinator_, list_wait_reasons{});
  for (shard_probe& s : shards_) EXPECT_THAT(s.heard<list_wait_reasons>(), SizeIs(1));
  EXPECT_THAT(devices_[0].heard<list_wait_reasons>(), SizeIs(1));
  EXPECT_THAT(devices_[1].heard<list_wait_reasons>(), IsEmpty()) << "it has finished";
  tell(coordinator_, wait_reason{"worker 0 waits for a batch", 5});
  EXPECT_THAT(waits_, ElementsAre("worker 0 waits for a batch"));
}

TEST_F(Coordinator, TellsWorkersToGiveUpWhenAShardIsLost) {
  begin();
  kill(shards_[1].actor());
  for (const std::uint32_t r : {0U, 1U}) EXPECT_THAT(devices_[r].heard<give_up>(), SizeIs(1));
  finish(0);
  finish(1);
  report_shard_of(0);
  expect_ended(ending::failed, "shard 1 is lost");
}

TEST_F(Coordinator, TellsAWorkerThatJoinsAfterAShardIsLostToGiveUpToo) {
  start_coordinator([](auto&) {});
  join(1);
  kill(shards_[0].actor());
  tell(coordinator_, worker_joined{{1}, devices_[1].actor()});
  EXPECT_THAT(devices_[1].heard<give_up>(), SizeIs(1));
}

TEST_F(Coordinator, TellsWorkersToGiveUpWhenTheFeederIsLost) {
  begin();
  kill(feeder_.actor());
  for (const std::uint32_t r : {0U, 1U}) EXPECT_THAT(devices_[r].heard<give_up>(), SizeIs(1));
}

TEST_F(Coordinator, EndsWhenAShardDiesInsteadOfReporting) {
  begin();
  finish(0);
  finish(1);
  report_shard_of(0);
  kill(shards_[1].actor());
  EXPECT_EQ(outcome().how, ending::failed) << "its weights are gone";
  EXPECT_THAT(outcome().why, StartsWith("shard 1 is lost"));
}

/// Its last update lacked memory when no worker was left to hear of it.
TEST_F(Coordinator, FailsARunWhoseShardSaysSoBeforeItsReport) {
  begin();
  finish(0);
  finish(1);
  tell(coordinator_, shard_failed{{0}, "out of memory"});
  EXPECT_EQ(end().why, "shard 0 has failed: out of memory");
  EXPECT_EQ(outcome().how, ending::failed);
}

TEST_F(Coordinator, CountsAShardThatFailsAfterItsReportOnce) {
  begin();
  finish(0);
  finish(1);
  report_shard_of(0, 6);
  kill(shards_[0].actor());
  EXPECT_THAT(outcomes_, IsEmpty()) << "the other has still to report";
  report_shard_of(1, 7);
  EXPECT_EQ(outcome().how, ending::completed) << outcome().why;
  ASSERT_THAT(outcome().shards, SizeIs(2));
  EXPECT_EQ(outcome().shards[0].version.value, 6U);
  EXPECT_EQ(outcome().shards[1].version.value, 7U);
}

TEST_F(Coordinator, KeepsTheReasonOfARunThatWasStoppedWhenAShardDiesInsteadOfReporting) {
  begin();
  tell(coordinator_, stop_training{"enough"});
  finish(0);
  finish(1);
  report_shard_of(0);
  kill(shards_[1].actor());
  EXPECT_EQ(outcome().how, ending::stopped);
  EXPECT_EQ(outcome().why, "enough");
}

/// They are lost with their process, one message after the other.
TEST_F(Coordinator, NamesShardsTogetherThatAreLostForOneReason) {
  begin();
  for (const shard_probe& s : shards_) messaging::end_with_words(s.actor(), "its process is gone");
  run();
  for (const std::uint32_t r : {0U, 1U}) finish(r);
  EXPECT_EQ(outcome().why, "shards 0, 1 are lost: its process is gone");
}

TEST_F(Coordinator, KeepsTheFirstReasonOfShardsThatAreLostForTwo) {
  begin();
  messaging::end_with_words(shards_[1].actor(), "out of memory");
  messaging::end_with_words(shards_[0].actor(), "its process is gone");
  run();
  for (const std::uint32_t r : {0U, 1U}) finish(r);
  EXPECT_EQ(outcome().why, "shard 1 is lost: out of memory");
}

TEST_F(Coordinator, KeepsInACheckpointWhatALostWorkerCutOfItsOwnSamples) {
  begin_keeping();
  lose_first(2);
  tell(coordinator_, request_checkpoint{});
  send_parts({"worker 1", "shard 0", "shard 1"});
  send_part_of_feeder();
  const auto kept = only(writer_.heard<write_checkpoint>()).parts.at("worker 0");
  saved_fields part(kept->text(), kept->arrays());
  bool ended = false;
  worker_report report;
  part.version(1);
  part.field("ended", ended);
  part.field("report", report);
  EXPECT_EQ(report.steps, 3U);
  EXPECT_EQ(report.local_batches, 3U);
}

TEST_F(Coordinator, BeginsNoCheckpointOfTheEndForAWorkerThatIsLostAtItsEnd) {
  begin_keeping(1);
  tell(coordinator_, request_checkpoint{});
  tell(coordinator_, worker_at_end{{0}});
  lose_first(1);
  send_parts({"worker 1", "shard 0"});
  send_part_of_feeder();
  EXPECT_THAT(writer_.heard<write_checkpoint>(), SizeIs(1));
  tell(coordinator_, checkpoint_written{1, 10, "last", ""});
  EXPECT_THAT(devices_[1].heard<mark_at_end>(), IsEmpty());
  tell(coordinator_, request_checkpoint{});
  EXPECT_THAT(devices_[1].heard<take_checkpoint>(), SizeIs(2)) << "the next one is not held up";
}

TEST_F(Coordinator, TakesNoCheckpointForAStopThatComesBehindTheLast) {
  begin_keeping(2, std::chrono::seconds(60));
  for (const std::uint32_t r : {0U, 1U}) finish(r);
  send_parts({"shard 0", "shard 1", "feeder"});
  EXPECT_THAT(writer_.heard<write_checkpoint>(), SizeIs(1));
  tell(coordinator_, checkpoint_written{1, 10, "last", ""});
  EXPECT_THAT(shards_[0].heard<report_shard>(), SizeIs(1));
  tell(coordinator_, stop_training{"enough"});
  for (shard_probe& s : shards_) EXPECT_THAT(s.heard<take_checkpoint>(), SizeIs(1)) << "that of the end";
  end();
}

class PolicySwitcher : public testing::CoordinatorTest {
protected:
  explicit PolicySwitcher(bool shares_credit = false) {
    start_coordinator([&](coordinator_options& o) {
      o.shares_credit = shares_credit;
      o.policies = {{0, {"async", 2}}};
    });
    join();
  }
  void ask_for_sync() { tell(coordinator_, request_switch{"sync", "by hand"}); }
  void expect_free_credit(std::size_t times) {
    for (shard_probe& s : shards_) EXPECT_THAT(s.heard<free_credit>(), SizeIs(times));
  }
  const std::string what_ = "the switch from async to sync waits for ";
  const std::string all_ = what_ + "worker 0 (heard 0.0 s ago), 1 (heard 0.0 s ago)";
};

TEST_F(PolicySwitcher, NamesEverybodyWhomItWaitsFor) {
  EXPECT_THAT(waits(), IsEmpty());
  ask_for_sync();
  EXPECT_THAT(waits(), ElementsAre(all_));
  tell(coordinator_, worker_paused{{0}, 1, 3, 3});
  EXPECT_THAT(waits(), ElementsAre(what_ + "worker 1 (heard 0.0 s ago)"));
  tell(coordinator_, worker_paused{{1}, 1, 4, 4});
  EXPECT_THAT(waits(), ElementsAre(what_ + "shards 0, 1"));
  tell(coordinator_, policy_switched{0, 1});
  EXPECT_THAT(waits(), ElementsAre(what_ + "shard 1"));
  tell(coordinator_, policy_switched{1, 1});
  EXPECT_THAT(waits(), IsEmpty());
}

struct SwitcherOfSharedCredit : PolicySwitcher {
  SwitcherOfSharedCredit() : PolicySwitcher(true) {}
};

TEST_F(SwitcherOfSharedCredit, TellsShardsThatWorkersMayStandStill) {
  ask_for_sync();
  expect_free_credit(1);
}

TEST_F(SwitcherOfSharedCredit, TellsThemWhenAWorkerIsAboutToEnd) {
  tell(coordinator_, worker_at_end{{1}});
  expect_free_credit(1);
}

TEST_F(PolicySwitcher, TellsNothingOfThatWhereNobodySharesCredit) {
  ask_for_sync();
  tell(coordinator_, worker_at_end{{1}});
  expect_free_credit(0);
}

TEST_F(PolicySwitcher, TakesNoAnswerToAnotherSwitch) {
  ask_for_sync();
  tell(coordinator_, worker_paused{{0}, 9, 3, 3});
  tell(coordinator_, worker_paused{{1'000'000}, 1, 3, 3}); // nor of a worker that has no slot
  EXPECT_THAT(waits(), ElementsAre(all_));
  for (std::uint32_t r = 0; r < 2; ++r) tell(coordinator_, worker_paused{{r}, 1, 3, 3});
  tell(coordinator_, policy_switched{0, 9});
  EXPECT_THAT(waits(), ElementsAre(what_ + "shards 0, 1"));
}

TEST_F(PolicySwitcher, TellsShardsWhoIsPresentAndHowFarEachCame) {
  finish(0);
  ask_for_sync();
  tell(coordinator_, worker_paused{{1}, 1, 4, 4});
  for (shard_probe& s : shards_) {
    const switch_policy& order = only(s.heard<switch_policy>());
    EXPECT_EQ(order.epoch.value, 1U);
    EXPECT_EQ(order.policy, "sync");
    EXPECT_THAT(order.steps, ElementsAre(step_number{0}, step_number{4}))
        << "nothing is awaited of who has left";
    EXPECT_THAT(order.present, ElementsAre(0, 1));
  }
}

} // namespace
} // namespace mailgrad
