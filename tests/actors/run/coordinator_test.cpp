#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/tests/support/deterministic_test.hpp>

#include <mailgrad/actors/run/coordinator.hpp>
#include <mailgrad/actors/run/feeder_cut.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <chrono>
#include <limits>
#include <memory>

namespace mailgrad {
using messaging::kill;

namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

using device_probe = testing::listener<give_up, name_waits>;
using shard_probe = testing::listener<report_shard, worker_left, name_waits>;
using feeder_probe = testing::listener<stop_dealing, worker_left>;

/// A coordinator of two workers and two shards, all played by probes.
class Coordinator : public testing::DeterministicTest {
protected:
  Coordinator() {
    coordinator_options options;
    options.workers = 2;
    for (const shard_probe& s : shards_) options.shards.push_back(s.actor());
    options.feeder = feeder_.actor();
    options.on_end = [this](run_outcome outcome) { outcomes_.push_back(std::move(outcome)); };
    options.on_wait = [this](const wait_named& w) { waits_.push_back(w.what); };
    coordinator_ = start<coordinator>(std::move(options));
    run();
  }

  void join() {
    for (std::uint32_t r = 0; r < 2; ++r) tell(coordinator_, worker_joined{{r}, devices_[r].actor()});
  }
  static worker_report report_of(std::uint32_t worker, std::uint64_t produced = 5,
                                 float loss = std::numeric_limits<float>::quiet_NaN()) {
    worker_report r;
    r.worker = {worker};
    r.produced = produced;
    r.loss_bits = std::bit_cast<std::uint32_t>(loss);
    return r;
  }
  void finish(std::uint32_t worker) { tell(coordinator_, worker_finished{report_of(worker)}); }
  void kill(const caf::actor& a) {
    mailgrad::messaging::kill(a);
    run();
  }
  void report_shards() {
    for (std::uint32_t s = 0; s < 2; ++s) tell(coordinator_, shard_report{s, 10, {}, {}});
  }
  std::size_t shards_asked() {
    std::size_t asked = 0;
    for (shard_probe& s : shards_) asked += s.heard<report_shard>().size();
    return asked;
  }

  std::vector<run_outcome> outcomes_;
  std::vector<std::string> waits_;
  std::vector<shard_probe> shards_{listen<report_shard, worker_left, name_waits>(),
                                   listen<report_shard, worker_left, name_waits>()};
  std::vector<device_probe> devices_{listen<give_up, name_waits>(), listen<give_up, name_waits>()};
  feeder_probe feeder_ = listen<stop_dealing, worker_left>();
  caf::actor coordinator_;
};

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
  EXPECT_THAT(outcomes_[0].why, AllOf(HasSubstr("worker 1"), HasSubstr("step 17"), HasSubstr("2.5")));
}

TEST_F(Coordinator, SaysSoWhenThereWasNoFiniteLossBefore) {
  join();
  tell(coordinator_, loss_diverged{report_of(0, 1), 1});
  finish(1);
  report_shards();
  EXPECT_THAT(outcomes_.at(0).why, HasSubstr("no finite loss before"));
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

TEST_F(Coordinator, KeepsInACheckpointWhatALostWorkerCutOfItsOwnSamples) {
  auto devices = std::array{listen<take_checkpoint, give_up>(), listen<take_checkpoint, give_up>()};
  auto shards = std::array{listen<take_checkpoint, report_shard, worker_left, tell_trained>(),
                           listen<take_checkpoint, report_shard, worker_left, tell_trained>()};
  auto feeder = listen<take_checkpoint, watch_checkpoints, share_lost, deal_again>();
  auto writer = listen<write_checkpoint>();
  coordinator_options options;
  options.workers = 2;
  options.elastic = true;
  options.shards = {shards[0].actor(), shards[1].actor()};
  options.feeder = feeder.actor();
  options.checkpoints.writer = writer.actor();
  const caf::actor keeping = start<coordinator>(std::move(options));
  for (std::uint32_t r = 0; r < 2; ++r) tell(keeping, worker_joined{{r}, devices[r].actor()});
  kill(devices[0].actor());
  for (std::uint32_t s = 0; s < 2; ++s) tell(keeping, trained_told{{s}, {0}, {}, 3, 3, 24});
  tell(keeping, share_ended{{0}, {}, 3, 0});
  tell(keeping, request_checkpoint{});
  feeder_position position;
  position.trained = {3, 4};
  std::vector<std::uint64_t> samples{24, 32};
  const auto of_feeder = std::make_shared<saved_fields>();
  of_feeder->field("feeder", position);
  of_feeder->field(samples_at_marks, samples);
  for (const char* name : {"worker 1", "shard 0", "shard 1"})
    tell(keeping, checkpoint_part{1, name, std::make_shared<saved_fields>()});
  tell(keeping, checkpoint_part{1, "feeder", of_feeder});
  ASSERT_THAT(writer.heard<write_checkpoint>(), SizeIs(1));
  const auto kept = writer.heard<write_checkpoint>()[0].parts.at("worker 0");
  saved_fields part(kept->text(), kept->arrays());
  bool ended = false;
  worker_report report;
  part.version(1);
  part.field("ended", ended);
  part.field("report", report);
  EXPECT_EQ(report.steps, 3U);
  EXPECT_EQ(report.own_batches, 3U);
}

TEST_F(Coordinator, BeginsNoCheckpointOfTheEndForAWorkerThatIsLostAtItsEnd) {
  auto devices = std::array{listen<take_checkpoint, give_up, mark_at_end>(),
                            listen<take_checkpoint, give_up, mark_at_end>()};
  auto shard = listen<take_checkpoint, report_shard, worker_left, tell_trained>();
  auto feeder = listen<take_checkpoint, watch_checkpoints, share_lost, deal_again>();
  auto writer = listen<write_checkpoint>();
  coordinator_options options;
  options.workers = 2;
  options.elastic = true;
  options.shards = {shard.actor()};
  options.feeder = feeder.actor();
  options.checkpoints.writer = writer.actor();
  const caf::actor keeping = start<coordinator>(std::move(options));
  for (std::uint32_t r = 0; r < 2; ++r) tell(keeping, worker_joined{{r}, devices[r].actor()});
  tell(keeping, request_checkpoint{});
  tell(keeping, worker_at_end{{0}});
  kill(devices[0].actor());
  tell(keeping, trained_told{{0}, {0}, {}, 3, 3, 24});
  tell(keeping, share_ended{{0}, {}, 3, 0});
  feeder_position position;
  position.trained = {3, 4};
  std::vector<std::uint64_t> samples{24, 32};
  const auto of_feeder = std::make_shared<saved_fields>();
  of_feeder->field("feeder", position);
  of_feeder->field(samples_at_marks, samples);
  for (const char* name : {"worker 1", "shard 0"})
    tell(keeping, checkpoint_part{1, name, std::make_shared<saved_fields>()});
  tell(keeping, checkpoint_part{1, "feeder", of_feeder});
  ASSERT_THAT(writer.heard<write_checkpoint>(), SizeIs(1));
  tell(keeping, checkpoint_written{1, 10, "last", ""});
  EXPECT_THAT(devices[1].heard<mark_at_end>(), IsEmpty());
  tell(keeping, request_checkpoint{});
  EXPECT_THAT(devices[1].heard<take_checkpoint>(), SizeIs(2)) << "the next one is not held up";
}

TEST_F(Coordinator, TakesNoCheckpointForAStopThatComesBehindTheLast) {
  auto devices = std::array{listen<take_checkpoint, give_up>(), listen<take_checkpoint, give_up>()};
  auto shards = std::array{listen<take_checkpoint, report_shard, worker_left>(),
                           listen<take_checkpoint, report_shard, worker_left>()};
  auto feeder = listen<take_checkpoint, watch_checkpoints, stop_dealing, worker_left>();
  auto writer = listen<write_checkpoint>();
  coordinator_options options;
  options.workers = 2;
  options.elastic = true;
  options.waits_for_workers = std::chrono::seconds(60);
  options.shards = {shards[0].actor(), shards[1].actor()};
  options.feeder = feeder.actor();
  options.checkpoints.writer = writer.actor();
  options.on_end = [this](run_outcome outcome) { outcomes_.push_back(std::move(outcome)); };
  const caf::actor keeping = start<coordinator>(std::move(options));
  for (std::uint32_t r = 0; r < 2; ++r) tell(keeping, worker_joined{{r}, devices[r].actor()});
  for (std::uint32_t r = 0; r < 2; ++r) {
    worker_report report = report_of(r);
    report.steps = 5;
    tell(keeping, worker_finished{report});
  }
  for (const char* name : {"shard 0", "shard 1", "feeder"})
    tell(keeping, checkpoint_part{1, name, std::make_shared<saved_fields>()});
  ASSERT_THAT(writer.heard<write_checkpoint>(), SizeIs(1));
  tell(keeping, checkpoint_written{1, 10, "last", ""});
  ASSERT_THAT(shards[0].heard<report_shard>(), SizeIs(1));
  tell(keeping, stop_training{"enough"});
  for (auto& s : shards) EXPECT_THAT(s.heard<take_checkpoint>(), SizeIs(1)) << "that of the end";
  for (std::uint32_t s = 0; s < 2; ++s) tell(keeping, shard_report{s, 10, {}, {}});
  EXPECT_THAT(outcomes_, SizeIs(1));
}

TEST_F(Coordinator, AsksEverybodyWhoMayWaitAndPassesTheAnswersOn) {
  join();
  finish(1);
  tell(coordinator_, name_waits{});
  for (shard_probe& s : shards_) EXPECT_THAT(s.heard<name_waits>(), SizeIs(1));
  EXPECT_THAT(devices_[0].heard<name_waits>(), SizeIs(1));
  EXPECT_THAT(devices_[1].heard<name_waits>(), IsEmpty()) << "it has finished";
  tell(coordinator_, wait_named{"worker 0 waits for a batch", 5});
  EXPECT_THAT(waits_, ElementsAre("worker 0 waits for a batch"));
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
