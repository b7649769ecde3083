#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/tests/support/deterministic_test.hpp>

#include <mailgrad/actors/run/coordinator.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;
using ::testing::StrEq;

using device_probe = testing::listener<seat_given, give_up, pause_worker, name_waits, trace_taken>;
using shard_probe = testing::listener<report_shard, worker_left, tell_trained, switch_policy, name_waits>;
using feeder_probe =
    testing::listener<stop_dealing, worker_left, share_lost, deal_again, count_undealt, go_on_dealing>;

/// A coordinator of two workers, three seats and two shards, all played by probes.
class CoordinatorSeats : public testing::DeterministicTest {
protected:
  void begin(instant waits = 0s, bool elastic = true) {
    coordinator_options options;
    options.workers = 2;
    options.seats = 3;
    options.elastic = elastic;
    options.waits_for_workers = waits;
    options.timelines = told_timelines(0s, 100);
    if (steps_before_ > 0) options.resumed = kept_schedule{"async"};
    options.steps_before = steps_before_;
    options.time = time_;
    for (const shard_probe& s : shards_) options.shards.push_back(s.actor());
    options.feeder = feeder_.actor();
    options.on_end = [this](run_outcome outcome) { outcomes_.push_back(std::move(outcome)); };
    options.on_wait = [this](const wait_named& w) { waits_.push_back(w.what); };
    coordinator_ = start<coordinator>(std::move(options));
    for (std::uint32_t r = 0; r < 2; ++r) tell(coordinator_, worker_joined{{r}, devices_[r].actor()});
  }

  device_probe new_device() { return listen<seat_given, give_up, pause_worker, name_waits, trace_taken>(); }
  /// A device tells a piece with one event.
  void tell_trace(std::uint32_t worker, std::uint32_t life, const device_probe& device) {
    trace_piece piece{"cpu:0", time_->now().count(), {}, 0, {{trace_kind::compute, 1, 1}}};
    messaging::send_as(device.actor(), coordinator_, caf::make_message(trace_told{{worker}, {life}, piece}));
    run();
  }
  void join_late(std::uint32_t worker, std::uint32_t life, const device_probe& device) {
    tell(coordinator_, worker_joined{{worker}, device.actor(), {life}, true});
  }
  void lose(std::uint32_t worker) {
    messaging::kill(devices_[worker].actor());
    run();
  }
  /// Both shards answer what they took of a lost worker.
  void answer(std::uint32_t worker, std::uint32_t life, std::uint64_t first, std::uint64_t second) {
    tell(coordinator_, trained_told{{0}, {worker}, {life}, first, first, first * 8});
    tell(coordinator_, trained_told{{1}, {worker}, {life}, second, second, second * 8});
    tell(coordinator_, share_ended{{worker}, {life}, 0, 1});
  }
  void finish(std::uint32_t worker, std::uint32_t life = 0, std::uint64_t steps = 5,
              const std::string& why_left = {}) {
    worker_report r;
    r.worker = {worker};
    r.steps = r.produced = steps;
    tell(coordinator_, worker_finished{r, {life}, why_left});
  }
  /// The process of a shard has lost its connection with a worker.
  void part(std::uint32_t shard, std::uint32_t worker, std::uint32_t life = 0) {
    messaging::send_as(shards_[shard].actor(), coordinator_,
                       caf::make_message(worker_left{{worker}, {life}}));
    run();
  }
  void report_shards() {
    for (std::uint32_t s = 0; s < 2; ++s) tell(coordinator_, shard_report{s, 10, {}, {}});
  }

  std::uint64_t steps_before_ = 0; ///< of other workers, if the run goes on from a checkpoint
  std::vector<run_outcome> outcomes_;
  std::vector<std::string> waits_;
  std::array<shard_probe, 2> shards_{
      listen<report_shard, worker_left, tell_trained, switch_policy, name_waits>(),
      listen<report_shard, worker_left, tell_trained, switch_policy, name_waits>()};
  std::array<device_probe, 2> devices_{new_device(), new_device()};
  feeder_probe feeder_ =
      listen<stop_dealing, worker_left, share_lost, deal_again, count_undealt, go_on_dealing>();
  caf::actor coordinator_;
};

TEST_F(CoordinatorSeats, AreGivenToALateWorkerAtOnce) {
  begin();
  device_probe late = new_device();
  join_late(2, 0, late);
  ASSERT_THAT(late.heard<seat_given>(), SizeIs(1));
  EXPECT_EQ(late.heard<seat_given>()[0].so_far.steps, 0U);
  finish(0);
  finish(1);
  EXPECT_THAT(shards_[0].heard<report_shard>(), IsEmpty()) << "the late one trains";
  finish(2);
  report_shards();
  ASSERT_THAT(outcomes_, SizeIs(1));
  EXPECT_EQ(outcomes_[0].workers.size(), 3U);
}

/// A recording says where a switch found the workers, so there must be one.
TEST_F(CoordinatorSeats, LetAWaitingSwitchBeginWhenTheyAreTakenAgain) {
  begin(60s);
  tell(coordinator_, request_switch{"sync", "by hand"});
  for (std::uint32_t r = 0; r < 2; ++r) finish(r, 0, 5, "Ctrl-C");
  EXPECT_THAT(shards_[0].heard<switch_policy>(), IsEmpty()) << "nobody is left";
  device_probe late = new_device();
  join_late(2, 0, late);
  ASSERT_THAT(late.heard<seat_given>(), SizeIs(1));
  EXPECT_EQ(late.heard<seat_given>()[0].epoch.value, 0U);
  ASSERT_THAT(late.heard<pause_worker>(), SizeIs(1));
  tell(coordinator_, worker_paused{{2}, late.heard<pause_worker>()[0].epoch, 0, 0});
  ASSERT_THAT(shards_[0].heard<switch_policy>(), SizeIs(1));
  EXPECT_EQ(shards_[0].heard<switch_policy>()[0].epoch.value, 1U);
  EXPECT_THAT(shards_[0].heard<switch_policy>()[0].present, ElementsAre(0, 0, 1));
}

TEST_F(CoordinatorSeats, HaveShardsThatTellTheirTimelinesFromElsewhere) {
  begin();
  testing::listener<trace_taken> shard = listen<trace_taken>();
  for (const std::uint32_t s : {1U, 7U}) {
    trace_piece piece{"", time_->now().count(), {}, 0, {{trace_kind::apply, 1, 1}}};
    messaging::send_as(shard.actor(), coordinator_, caf::make_message(shard_trace_told{{s}, piece}));
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

TEST_F(CoordinatorSeats, ThatStayEmptyAreNotReported) {
  begin();
  finish(0);
  finish(1);
  report_shards();
  ASSERT_THAT(outcomes_, SizeIs(1));
  EXPECT_EQ(outcomes_[0].workers.size(), 2U);
  EXPECT_EQ(outcomes_[0].how, run_outcome::ending::completed);
}

TEST_F(CoordinatorSeats, AreRefusedWhereThereIsNone) {
  begin();
  device_probe none = new_device();
  join_late(3, 0, none);
  EXPECT_THAT(none.heard<give_up>(), SizeIs(1)) << "there is no such seat";
  device_probe taken = new_device();
  join_late(0, 0, taken);
  EXPECT_THAT(taken.heard<give_up>(), SizeIs(1)) << "that incarnation sits there";
  tell(coordinator_, stop_training{"by hand"});
  device_probe tardy = new_device();
  join_late(2, 0, tardy);
  EXPECT_THAT(tardy.heard<give_up>(), SizeIs(1)) << "the run ends";
}

TEST_F(CoordinatorSeats, AreRefusedInARunThatIsNotElastic) {
  begin(0s, false);
  device_probe late = new_device();
  join_late(2, 0, late);
  EXPECT_THAT(late.heard<give_up>(), SizeIs(1));
  lose(0);
  EXPECT_THAT(feeder_.heard<worker_left>(), SizeIs(1));
  EXPECT_THAT(feeder_.heard<share_lost>(), IsEmpty());
}

TEST_F(CoordinatorSeats, AreGivenBackWhenTheShardsHaveToldWhatTheyTookOfALostWorker) {
  begin();
  lose(0);
  for (shard_probe& s : shards_) EXPECT_THAT(s.heard<tell_trained>(), SizeIs(1));
  EXPECT_THAT(feeder_.heard<share_lost>(), SizeIs(1));
  device_probe back = new_device();
  join_late(0, 1, back);
  EXPECT_THAT(back.heard<seat_given>(), IsEmpty());
  tell(coordinator_, name_waits{});
  EXPECT_THAT(waits_, ElementsAre(HasSubstr("lost worker 0 wait to hear what shards 0, 1 took")));
  answer(0, 0, 3, 4);
  ASSERT_THAT(feeder_.heard<deal_again>(), SizeIs(1));
  EXPECT_EQ(feeder_.heard<deal_again>()[0].trained, 4U) << "the most that any shard has judged";
  ASSERT_THAT(back.heard<seat_given>(), SizeIs(1));
  EXPECT_EQ(back.heard<seat_given>()[0].so_far.produced, 4U);
  EXPECT_EQ(back.heard<seat_given>()[0].so_far.samples, 32U);
}

TEST_F(CoordinatorSeats, SayWhatWasSentToALostWorkerInVain) {
  begin();
  for (std::uint32_t r = 0; r < 2; ++r) lose(r);
  tell(coordinator_, stop_training{"by hand"});
  for (std::uint32_t s = 0; s < 2; ++s)
    for (std::uint32_t r = 0; r < 2; ++r) tell(coordinator_, trained_told{{s}, {r}, {0}, 3, 3, 24});
  report_shards();
  tell(coordinator_, share_ended{{0}, {0}, 3, 0});
  EXPECT_THAT(outcomes_, IsEmpty()) << "the feeder has not told of worker 1";
  tell(coordinator_, share_ended{{1}, {0}, 0, 2});
  tell(coordinator_, share_ended{{1}, {0}, 0, 7});
  ASSERT_THAT(outcomes_, SizeIs(1));
  EXPECT_THAT(outcomes_[0].lost_batches, ElementsAre(0, 2));
  EXPECT_EQ(outcomes_[0].workers[0].own_batches, 3U);
  EXPECT_EQ(outcomes_[0].workers[1].own_batches, 0U);
}

/// As on a machine that had them all.
TEST_F(CoordinatorSeats, CountWhatAWorkerHadToldIfNoShardIsLeftToSayIt) {
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
  EXPECT_EQ(outcomes_[0].workers[0].own_batches, 7U) << "no more than its steps";
  EXPECT_EQ(outcomes_[0].workers[0].produced, 7U);
  EXPECT_EQ(outcomes_[0].workers[0].samples, 56U);
  EXPECT_EQ(outcomes_[0].workers[1].steps, 6U);
}

TEST_F(CoordinatorSeats, CountWhatAWorkerHadToldAlsoIfItWasLostBeforeTheShards) {
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
TEST_F(CoordinatorSeats, TakeNoSecondWordOfAnEarlierIncarnation) {
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
  EXPECT_EQ(feeder_.heard<deal_again>()[1].life, incarnation{1});
  EXPECT_EQ(feeder_.heard<deal_again>()[1].trained, 2U);
}

TEST_F(CoordinatorSeats, AreTakenFromAnIncarnationThatHasNotBeenMissed) {
  begin();
  device_probe back = new_device();
  join_late(1, 1, back);
  EXPECT_THAT(devices_[1].heard<give_up>(), SizeIs(1));
  EXPECT_THAT(shards_[0].heard<worker_left>(), SizeIs(1));
  answer(1, 0, 2, 2);
  EXPECT_THAT(back.heard<seat_given>(), SizeIs(1));
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

TEST_F(CoordinatorSeats, AreGivenAfterASwitchInItsEpoch) {
  begin();
  tell(coordinator_, request_switch{"sync", "by hand"});
  device_probe late = new_device();
  join_late(2, 0, late);
  for (std::uint32_t r = 0; r < 2; ++r) tell(coordinator_, worker_paused{{r}, 1, 3, 3});
  ASSERT_THAT(shards_[0].heard<switch_policy>(), SizeIs(1));
  EXPECT_THAT(shards_[0].heard<switch_policy>()[0].present, ElementsAre(1, 1, 0));
  EXPECT_THAT(late.heard<seat_given>(), IsEmpty());
  for (std::uint32_t s = 0; s < 2; ++s) tell(coordinator_, policy_switched{{s}, {1}});
  ASSERT_THAT(late.heard<seat_given>(), SizeIs(1));
  EXPECT_EQ(late.heard<seat_given>()[0].epoch, policy_epoch{1});
  tell(coordinator_, request_switch{"async", "by hand"});
  EXPECT_THAT(late.heard<pause_worker>(), SizeIs(1));
}

/// A switch is told with the steps of all workers, as a checkpoint is.
TEST_F(CoordinatorSeats, CountTheStepsOfLostWorkersAtASwitch) {
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
TEST_F(CoordinatorSeats, KeepTheTimelinesThatTheirWorkersTell) {
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

TEST_F(CoordinatorSeats, AreForgottenOfAWorkerThatDiesBeforeItSits) {
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

TEST_F(CoordinatorSeats, WaitForAWorkerSoLong) {
  begin(30s);
  for (std::uint32_t r = 0; r < 2; ++r) {
    lose(r);
    answer(r, 0, 1, 1);
  }
  tell(coordinator_, undealt_counted{4});
  EXPECT_THAT(shards_[0].heard<report_shard>(), IsEmpty());
  time_->advance(7s);
  tell(coordinator_, name_waits{});
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

TEST_F(CoordinatorSeats, WaitForAWorkerForEver) {
  begin(instant::max());
  for (std::uint32_t r = 0; r < 2; ++r) {
    lose(r);
    answer(r, 0, 1, 1);
  }
  tell(coordinator_, undealt_counted{4});
  time_->advance(24h * 365);
  tell(coordinator_, name_waits{});
  EXPECT_THAT(waits_, ElementsAre("the run waits for a worker to train the 4 mini-batches that remain"));
  EXPECT_THAT(shards_[0].heard<report_shard>(), IsEmpty());
  tell(coordinator_, stop_training{"by hand"});
  report_shards();
  ASSERT_THAT(outcomes_, SizeIs(1));
  EXPECT_EQ(outcomes_[0].why, "by hand");
}

TEST_F(CoordinatorSeats, EndTheWaitWhenAWorkerComes) {
  begin(30s);
  for (std::uint32_t r = 0; r < 2; ++r) {
    lose(r);
    answer(r, 0, 1, 1);
  }
  tell(coordinator_, undealt_counted{4});
  device_probe late = new_device();
  join_late(2, 0, late);
  EXPECT_THAT(late.heard<seat_given>(), SizeIs(1));
  tell(coordinator_, wait_over{1});
  EXPECT_THAT(shards_[0].heard<report_shard>(), IsEmpty());
  finish(2, 0, 4);
  tell(coordinator_, undealt_counted{0});
  report_shards();
  ASSERT_THAT(outcomes_, SizeIs(1));
  EXPECT_EQ(outcomes_[0].how, run_outcome::ending::completed);
  EXPECT_THAT(outcomes_[0].lost, ElementsAre(true, true, false));
}

TEST_F(CoordinatorSeats, SayThatNobodyWasLeftToTrainTheLastBatches) {
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

TEST_F(CoordinatorSeats, SayThatOneMiniBatchRemainsWhenTheyHaveLeft) {
  begin();
  for (std::uint32_t r = 0; r < 2; ++r) finish(r, 0, 5, "Ctrl-C");
  tell(coordinator_, undealt_counted{1});
  report_shards();
  ASSERT_THAT(outcomes_, SizeIs(1));
  EXPECT_THAT(
      outcomes_[0].why,
      StartsWith("nobody was left to train the mini-batch that remains, since all workers had left; "));
}

TEST_F(CoordinatorSeats, AskTheFeederOnlyIfSomebodyWentEarly) {
  begin();
  finish(0);
  finish(1);
  EXPECT_THAT(feeder_.heard<count_undealt>(), IsEmpty());
  EXPECT_THAT(shards_[0].heard<report_shard>(), SizeIs(1));
}

TEST_F(CoordinatorSeats, MayBeLeftAndTakenAgain) {
  begin();
  finish(0, 0, 5, "its owner asked for it");
  device_probe back = new_device();
  join_late(0, 1, back);
  ASSERT_THAT(back.heard<seat_given>(), SizeIs(1)) << "it has told everything itself";
  EXPECT_EQ(back.heard<seat_given>()[0].so_far.steps, 5U);
  EXPECT_THAT(shards_[0].heard<tell_trained>(), IsEmpty());
}

TEST_F(CoordinatorSeats, EndWithTheRunWhenAShardDiesWhileItWaits) {
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

/// Its last message may not have come there, and the shard would wait for it for ever.
TEST_F(CoordinatorSeats, TellAShardThatItsConnectionWithAWorkerThatFinishedHasEnded) {
  begin();
  finish(0);
  part(1, 0);
  EXPECT_THAT(shards_[0].heard<worker_left>(), IsEmpty()) << "gradients may be on their way to it";
  ASSERT_THAT(shards_[1].heard<worker_left>(), SizeIs(1));
  EXPECT_EQ(shards_[1].heard<worker_left>()[0].worker, rank{0});
}

TEST_F(CoordinatorSeats, TellAShardOfAnEndedConnectionNoEarlierThanTheWorkerIsAccountedFor) {
  begin();
  part(0, 0);
  part(1, 0);
  for (shard_probe& s : shards_) EXPECT_THAT(s.heard<worker_left>(), IsEmpty());
  finish(0);
  for (shard_probe& s : shards_) EXPECT_THAT(s.heard<worker_left>(), SizeIs(1));
}

TEST_F(CoordinatorSeats, TellNoShardOfAConnectionOfAWorkerThatHasNoSeatYet) {
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
TEST_F(CoordinatorSeats, TellTheFeederOfALostWorkerBeforeTheShards) {
  begin();
  messaging::kill(devices_[0].actor());
  while (shards_[0].heard<worker_left>().empty() && shards_[1].heard<worker_left>().empty())
    ASSERT_TRUE(step());
  EXPECT_THAT(feeder_.heard<share_lost>(), SizeIs(1));
}

} // namespace
} // namespace mailgrad
