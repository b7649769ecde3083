#include <mailgrad/tests/actors/run/coordinator_fixture.hpp>

#include <gmock/gmock.h>

// What a coordinator does in a run whose workers come and go.

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains, ::testing::ElementsAre, ::testing::HasSubstr, ::testing::IsEmpty,
    ::testing::SizeIs, ::testing::StartsWith;
using testing::only;
using ending = run_outcome::ending;
using kind = order_entry::kind;

/// Two workers and three slots.
class CoordinatorSlots : public testing::CoordinatorTest {
protected:
  void begin(instant waits = instant{0}, bool elastic = true) {
    start_coordinator([&](coordinator_options& o) {
      o.slots = 3;
      o.elastic = elastic;
      o.waits_for_workers = waits;
      o.timelines = reported_timelines(instant{0}, 100);
      if (steps_before_ > 0) o.resumed = kept_schedule{"async"};
      o.steps_before = steps_before_;
    });
    join();
  }
  /// Another worker, or incarnation of one, comes.
  device_probe joined_late(std::uint32_t worker, std::uint32_t incarnation) {
    device_probe device = new_device();
    join_late(worker, incarnation, device);
    return device;
  }
  void tell_trace(std::uint32_t worker, std::uint32_t incarnation, const device_probe& device) {
    trace_piece piece{"cpu:0", time_->now().count(), {}, 0, {{trace_kind::compute, 1, 1}}};
    messaging::send_as(device.actor(), coordinator_,
                       caf::make_message(trace_reported{{worker}, {incarnation}, piece}));
    run();
  }
  /// Both shards answer what they took of a lost worker.
  void answer(std::uint32_t worker, std::uint32_t incarnation, std::uint64_t first, std::uint64_t second) {
    tell(coordinator_, trained_reported{{0}, {worker}, {incarnation}, first, first, first * 8});
    tell(coordinator_, trained_reported{{1}, {worker}, {incarnation}, second, second, second * 8});
    tell(coordinator_, share_ended{{worker}, {incarnation}, 0, 1});
  }
  /// All workers are lost, and 4 batches are left.
  void lose_all() {
    for (std::uint32_t r = 0; r < 2; ++r) {
      lose(r);
      answer(r, 0, 1, 1);
    }
    tell(coordinator_, undealt_counted{4});
  }
  void kill_shards() {
    for (const shard_probe& s : shards_) messaging::kill(s.actor());
    run();
  }
  /// How the run ends in which so many batches are left.
  const run_outcome& end_with(std::uint64_t undealt) {
    tell(coordinator_, undealt_counted{undealt});
    return end();
  }
  /// The process of a shard has lost its connection with a worker.
  void part(std::uint32_t shard, std::uint32_t worker, std::uint32_t incarnation = 0) {
    messaging::send_as(shards_[shard].actor(), coordinator_,
                       caf::make_message(worker_left{{worker}, {incarnation}}));
    run();
  }
  void expect_all_left(std::size_t times) {
    for (shard_probe& s : shards_) EXPECT_THAT(s.heard<worker_left>(), SizeIs(times));
  }

  std::uint64_t steps_before_ = 0; ///< of other workers, if the run goes on from a checkpoint
};

TEST_F(CoordinatorSlots, AreGivenToALateWorkerAtOnce) {
  begin();
  device_probe late = joined_late(2, 0);
  EXPECT_EQ(only(late.heard<slot_given>()).so_far.steps, 0U);
  finish(0);
  finish(1);
  EXPECT_THAT(shards_[0].heard<report_shard>(), IsEmpty()) << "the late one trains";
  EXPECT_EQ(end({2}).workers.size(), 3U);
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
  const auto& told = only(end({0, 1}).told); // there is no shard 7
  EXPECT_EQ(told.track->name(), "shard 1");
  EXPECT_TRUE(told.whole);
}

TEST_F(CoordinatorSlots, ThatStayEmptyAreNotReported) {
  begin();
  EXPECT_EQ(end({0, 1}).workers.size(), 2U);
  EXPECT_EQ(outcome().how, ending::completed);
  EXPECT_THAT(feeder_.heard<count_undealt>(), IsEmpty()) << "nobody went early";
}

TEST_F(CoordinatorSlots, AreRefusedWhereThereIsNone) {
  begin();
  device_probe none = joined_late(3, 0), taken = joined_late(0, 0);
  EXPECT_THAT(none.heard<give_up>(), SizeIs(1)) << "there is no such slot";
  EXPECT_THAT(taken.heard<give_up>(), SizeIs(1)) << "that incarnation has the slot";
  tell(coordinator_, stop_training{"by hand"});
  device_probe tardy = joined_late(2, 0);
  EXPECT_THAT(tardy.heard<give_up>(), SizeIs(1)) << "the run ends";
}

TEST_F(CoordinatorSlots, AreRefusedInARunThatIsNotElastic) {
  begin(0s, false);
  device_probe late = joined_late(2, 0);
  EXPECT_THAT(late.heard<give_up>(), SizeIs(1));
  lose(0);
  EXPECT_THAT(feeder_.heard<worker_left>(), SizeIs(1));
  EXPECT_THAT(feeder_.heard<share_lost>(), IsEmpty());
}

TEST_F(CoordinatorSlots, AreGivenAfterASwitchInItsEpoch) {
  begin();
  tell(coordinator_, request_switch{"sync", "by hand"});
  device_probe late = joined_late(2, 0);
  for (std::uint32_t r = 0; r < 2; ++r) tell(coordinator_, worker_paused{{r}, 1, 3, 3});
  EXPECT_THAT(only(shards_[0].heard<switch_policy>()).present, ElementsAre(1, 1, 0));
  EXPECT_THAT(late.heard<slot_given>(), IsEmpty());
  for (std::uint32_t s = 0; s < 2; ++s) tell(coordinator_, policy_switched{{s}, {1}});
  EXPECT_EQ(only(late.heard<slot_given>()).epoch, policy_epoch{1});
  tell(coordinator_, request_switch{"async", "by hand"});
  EXPECT_THAT(late.heard<pause_worker>(), SizeIs(1));
}

/// A recording says where a switch found the workers, so there must be one.
TEST_F(CoordinatorSlots, LetAWaitingSwitchBeginWhenTheyAreTakenAgain) {
  begin(60s);
  tell(coordinator_, request_switch{"sync", "by hand"});
  for (std::uint32_t r = 0; r < 2; ++r) finish(r, 0, 5, "Ctrl-C");
  EXPECT_THAT(shards_[0].heard<switch_policy>(), IsEmpty()) << "nobody is left";
  device_probe late = joined_late(2, 0);
  EXPECT_EQ(only(late.heard<slot_given>()).epoch.value, 0U);
  tell(coordinator_, worker_paused{{2}, only(late.heard<pause_worker>()).epoch, 0, 0});
  EXPECT_EQ(only(shards_[0].heard<switch_policy>()).epoch.value, 1U);
  EXPECT_THAT(shards_[0].heard<switch_policy>()[0].present, ElementsAre(0, 0, 1));
}

TEST_F(CoordinatorSlots, WaitForAWorkerSoLong) {
  begin(30s);
  lose_all();
  EXPECT_THAT(shards_[0].heard<report_shard>(), IsEmpty());
  time_->advance(7s);
  EXPECT_EQ(only(waits()),
            "the run waits for a worker to train the 4 mini-batches that remain, 30 s at most");
  tell(coordinator_, wait_over{1});
  EXPECT_EQ(end().how, ending::failed);
  EXPECT_THAT(outcome().why, HasSubstr("no worker has come"));
  EXPECT_EQ(outcome().untrained, 4U);
}

TEST_F(CoordinatorSlots, WaitForAWorkerForEver) {
  begin(instant::max());
  lose_all();
  time_->advance(24h * 365);
  EXPECT_EQ(only(waits()), "the run waits for a worker to train the 4 mini-batches that remain");
  EXPECT_THAT(shards_[0].heard<report_shard>(), IsEmpty());
  tell(coordinator_, stop_training{"by hand"});
  EXPECT_EQ(end().why, "by hand");
}

TEST_F(CoordinatorSlots, EndTheWaitWhenAWorkerComes) {
  begin(30s);
  lose_all();
  device_probe late = joined_late(2, 0);
  EXPECT_THAT(late.heard<slot_given>(), SizeIs(1));
  tell(coordinator_, wait_over{1});
  EXPECT_THAT(shards_[0].heard<report_shard>(), IsEmpty());
  finish(2, 0, 4);
  EXPECT_EQ(end_with(0).how, ending::completed);
  EXPECT_THAT(outcome().lost, ElementsAre(true, true, false));
}

TEST_F(CoordinatorSlots, SayThatNobodyWasLeftToTrainTheLastBatches) {
  begin();
  finish(0);
  lose(1);
  answer(1, 0, 3, 3);
  EXPECT_EQ(end_with(2).how, ending::completed);
  EXPECT_EQ(outcome().untrained, 2U);
  EXPECT_EQ(outcome().why, "nobody was left to train the 2 mini-batches that remain, since all workers had "
                           "left or were lost; let the next run wait for another worker "
                           "(--when-alone wait) or take checkpoints (--checkpoint)");
}

TEST_F(CoordinatorSlots, SayThatOneMiniBatchRemainsWhenTheyHaveLeft) {
  begin();
  for (std::uint32_t r = 0; r < 2; ++r) finish(r, 0, 5, "Ctrl-C");
  EXPECT_THAT(end_with(1).why, StartsWith("nobody was left to train the mini-batch that remains, since all "
                                          "workers had left; "));
}

TEST_F(CoordinatorSlots, MayBeLeftAndTakenAgain) {
  begin();
  finish(0, 0, 5, "its owner asked for it");
  device_probe back = joined_late(0, 1);
  EXPECT_EQ(only(back.heard<slot_given>()).so_far.steps, 5U) << "it has told everything itself";
  EXPECT_THAT(shards_[0].heard<tell_trained>(), IsEmpty());
}

TEST_F(CoordinatorSlots, EndWithTheRunWhenAShardDiesWhileItWaits) {
  begin(30s);
  lose_all();
  kill(shards_[1].actor());
  report_shard_of(0);
  EXPECT_THAT(outcome().why, HasSubstr("shard 1 is lost"));
}

TEST_F(CoordinatorSlots, AreGivenBackWhenTheShardsHaveToldWhatTheyTookOfALostWorker) {
  begin();
  lose(0);
  for (shard_probe& s : shards_) EXPECT_THAT(s.heard<tell_trained>(), SizeIs(1));
  EXPECT_THAT(feeder_.heard<share_lost>(), SizeIs(1));
  device_probe back = joined_late(0, 1);
  EXPECT_THAT(back.heard<slot_given>(), IsEmpty());
  EXPECT_THAT(only(waits()), HasSubstr("lost worker 0 wait to hear what shards 0, 1 took"));
  answer(0, 0, 3, 4);
  EXPECT_EQ(only(feeder_.heard<deal_again>()).trained, 4U) << "the most that any shard has judged";
  EXPECT_EQ(only(back.heard<slot_given>()).so_far.produced, 4U);
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
  EXPECT_THAT(outcome().lost_batches, ElementsAre(0, 2));
  EXPECT_EQ(outcome().workers[0].local_batches, 3U);
  EXPECT_EQ(outcome().workers[1].local_batches, 0U);
}

TEST_F(CoordinatorSlots, KeepWhatALostWorkerSaidThatItHadWaited) {
  begin();
  tell(coordinator_, worker_progress{.worker = {0}, .steps = 5, .sums = {1, 2, 3, 4}});
  lose(0);
  answer(0, 0, 5, 5);
  device_probe back = joined_late(0, 1);
  EXPECT_EQ(only(back.heard<slot_given>()).so_far.waited(), 6) << "the next one adds its own";
  tell(coordinator_, worker_progress{.worker = {0}, .steps = 5, .sums = {10, 20, 30, 40}});
  kill(back.actor());
  answer(0, 1, 5, 5);
  finish(1);
  const worker_report& r = end_with(0).workers[0];
  EXPECT_EQ(r.barrier_wait, 11);
  EXPECT_EQ(r.bound_wait, 22);
  EXPECT_EQ(r.feeder_wait, 33);
  EXPECT_EQ(r.local_bytes, 44U);
}

TEST_F(CoordinatorSlots, KeepWhatALostWorkerSaidThatItHadWaitedWhereNoneComesBack) {
  begin(instant{0}, false);
  tell(coordinator_, worker_progress{.worker = {0}, .steps = 5, .sums = {1, 2, 3, 4}});
  lose(0);
  EXPECT_EQ(end({1}).workers[0].waited(), 6);
}

/// As on a machine that had them all.
TEST_F(CoordinatorSlots, CountWhatAWorkerHadToldIfNoShardIsLeftToSayIt) {
  begin();
  tell(coordinator_, worker_progress{.worker = {0}, .steps = 5, .samples = 40});
  tell(coordinator_, worker_progress{.worker = {0}, .steps = 2, .samples = 16});
  kill_shards();
  lose(0);
  finish(1, 0, 6);
  EXPECT_EQ(only(feeder_.heard<deal_again>()).trained, 7U);
  tell(coordinator_, share_ended{{0}, {0}, 9, 0});
  const worker_report& r = outcome().workers[0];
  EXPECT_EQ(r.steps, 7U);
  EXPECT_EQ(r.local_batches, 7U) << "no more than its steps";
  EXPECT_EQ(r.produced, 7U);
  EXPECT_EQ(r.samples, 56U);
  EXPECT_EQ(outcome().workers[1].steps, 6U);
}

TEST_F(CoordinatorSlots, CountWhatAWorkerHadToldAlsoIfItWasLostBeforeTheShards) {
  begin();
  tell(coordinator_, worker_progress{.worker = {0}, .steps = 5, .samples = 40});
  lose(0);
  kill_shards();
  finish(1, 0, 6);
  EXPECT_EQ(only(feeder_.heard<deal_again>()).trained, 5U);
  tell(coordinator_, share_ended{{0}, {0}});
  EXPECT_EQ(outcome().workers[0].steps, 5U);
}

/// As of a parameter host that is not as it should be.
TEST_F(CoordinatorSlots, TakeNoSecondWordOfAnEarlierIncarnation) {
  begin();
  lose(0);
  answer(0, 0, 3, 2);
  kill(joined_late(0, 1).actor());
  answer(0, 0, 9, 9);
  EXPECT_THAT(feeder_.heard<deal_again>(), SizeIs(1)) << "nobody has told of the later one";
  answer(0, 1, 2, 1);
  ASSERT_THAT(feeder_.heard<deal_again>(), SizeIs(2));
  EXPECT_EQ(feeder_.heard<deal_again>()[1].incarnation, incarnation_number{1});
  EXPECT_EQ(feeder_.heard<deal_again>()[1].trained, 2U);
}

TEST_F(CoordinatorSlots, AreTakenFromAnIncarnationThatHasNotBeenMissed) {
  begin();
  device_probe back = joined_late(1, 1);
  EXPECT_THAT(devices_[1].heard<give_up>(), SizeIs(1));
  EXPECT_THAT(shards_[0].heard<worker_left>(), SizeIs(1));
  answer(1, 0, 2, 2);
  EXPECT_THAT(back.heard<slot_given>(), SizeIs(1));
  finish(1, 0); // what it says now comes too late
  lose(1);
  finish(0);
  EXPECT_THAT(shards_[0].heard<report_shard>(), IsEmpty()) << "the later incarnation trains";
  finish(1, 1, 9);
  report_shards();
  ASSERT_THAT(outcomes_, IsEmpty()) << "the feeder has not told whether anything is left";
  EXPECT_EQ(end_with(0).workers[1].steps, 9U);
  EXPECT_EQ(outcome().how, ending::completed);
}

/// A switch is told with the steps of all workers, as a checkpoint is.
TEST_F(CoordinatorSlots, CountTheStepsOfLostWorkersAtASwitch) {
  for (const std::uint64_t before : {0U, 100U}) {
    steps_before_ = before;
    outcomes_.clear();
    for (device_probe& d : devices_) d = new_device();
    begin();
    lose(0);
    tell(coordinator_, request_switch{"sync", "by hand"});
    tell(coordinator_, worker_paused{{1}, 1, 3, 3});
    answer(0, 0, 4, 4);
    for (std::uint32_t s = 0; s < 2; ++s) tell(coordinator_, policy_switched{{s}, {1}});
    finish(1);
    EXPECT_EQ(only(end_with(0).switches).step, before + 7);
    EXPECT_EQ(outcome().workers[0].steps, 4U);
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
  device_probe back = joined_late(0, 1);
  tell_trace(0, 0, devices_[1]); // of a worker that is gone
  tell_trace(0, 1, back);
  EXPECT_THAT(back.heard<trace_taken>(), SizeIs(1));
  finish(0, 1);
  finish(1);
  const auto& told = end_with(0).told;
  ASSERT_THAT(told, SizeIs(2));
  EXPECT_FALSE(told[0].whole);
  EXPECT_THAT(told[0].track->events(), SizeIs(1));
  EXPECT_TRUE(told[1].whole);
}

TEST_F(CoordinatorSlots, AreForgottenOfAWorkerThatDiesBeforeItTakesOne) {
  begin();
  lose(0);
  kill(joined_late(0, 1).actor());
  answer(0, 0, 1, 1);
  finish(1);
  end_with(0); // nobody waits for the dead
}

/// Its last message may not have come there, and the shard would wait for it for ever.
TEST_F(CoordinatorSlots, TellAShardThatItsConnectionWithAWorkerThatFinishedHasEnded) {
  begin();
  finish(0);
  part(1, 0);
  EXPECT_THAT(shards_[0].heard<worker_left>(), IsEmpty()) << "gradients may be on their way to it";
  EXPECT_EQ(only(shards_[1].heard<worker_left>()).worker, rank{0});
}

/// A process that says it without end fills no memory of this one.
TEST_F(CoordinatorSlots, KeepOncePerShardThatAConnectionHasEnded) {
  begin();
  for (int i = 0; i < 100; ++i) part(0, 0);
  part(1, 0);
  expect_all_left(0);
  finish(0);
  expect_all_left(1);
}

/// Or else the run would wait for ever, if that shard was lost later.
TEST_F(CoordinatorSlots, TakeNoReportOfAShardThatWasNotAskedForIt) {
  begin();
  report_shards();
  for (std::uint32_t r = 0; r < 2; ++r) finish(r);
  EXPECT_THAT(outcomes_, IsEmpty()) << "the shards are asked now";
  end();
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

/// What it itself waits for, in words: whoever asks a run that stands still learns why.
class CoordinatorWaits : public testing::CoordinatorTest {
protected:
  void begin(std::shared_ptr<const recording> replayed = {}) {
    start_coordinator([&](coordinator_options& o) {
      o.slots = 3;
      o.elastic = true;
      o.waits_for_workers = replayed ? 0s : 60s;
      o.joining_workers = feeder_.actor();
      o.replayed = std::move(replayed);
    });
    join();
  }
  /// In the recorded run worker 2 came late, and then the policy was switched.
  static std::shared_ptr<recording> one_came_late() {
    recording r;
    r.header = {.workers = 2, .shards = 2, .facts = {}, .words = {}, .slots = 3};
    r.batches.resize(3);
    r.entries = std::vector(
        2, std::vector<order_entry>{{kind::joined, {0}}, {kind::joined, {1}}, {kind::joined, {2}}});
    r.end.switches = {{"sync", "by hand", {0, 0, 0}, {1, 1, 1}}};
    return std::make_shared<recording>(std::move(r));
  }
};

/// The device knows since when it waits.
TEST_F(CoordinatorWaits, AskANewcomerThatHasNoSlotYet) {
  begin();
  tell(coordinator_, request_switch{"sync", "by hand"}); // nobody joins meanwhile
  join_late(2, 0, devices_[2]);
  waits();
  EXPECT_THAT(devices_[2].heard<list_wait_reasons>(), SizeIs(1));
}

TEST_F(CoordinatorWaits, NameTheWorkerThatAReplayHasSpawned) {
  begin(one_came_late());
  EXPECT_THAT(feeder_.heard<bring_worker>(), SizeIs(1));
  time_->advance(2s);
  EXPECT_THAT(waits(), ElementsAre("the replay waits for worker 2 as incarnation 0"));
  EXPECT_EQ(span_, 2s);
  join_late(2, 0, devices_[2]);
  EXPECT_THAT(waits(), IsEmpty());
}

TEST_F(CoordinatorWaits, NameASwitchThatIsHeldBackForWhoCameBeforeIt) {
  begin(one_came_late());
  tell(coordinator_, step_reached{1});
  time_->advance(2s);
  EXPECT_THAT(waits(), Contains("the switch from async to sync waits for a worker that had come before it"));
}

TEST_F(CoordinatorWaits, NameASwitchThatNobodyIsThereFor) {
  begin();
  tell(coordinator_, request_switch{"sync", "by hand"});
  for (const std::uint32_t r : {0U, 1U}) messaging::kill(devices_[r].actor());
  run();
  EXPECT_THAT(waits(), Contains("the switch from async to sync waits for a worker"));
}

TEST_F(CoordinatorWaits, NameTheFeederThatHasNotToldOfTheBatchesOfALostWorker) {
  begin();
  lose(0);
  for (std::uint32_t s = 0; s < 2; ++s) tell(coordinator_, trained_reported{{s}, {0}, {}, 3, 3, 24});
  time_->advance(2s);
  EXPECT_THAT(waits(), ElementsAre("lost worker 0 waits until the feeder says what became of its batches"));
  EXPECT_EQ(span_, 2s);
  tell(coordinator_, share_ended{{0}, {}, 0, 1});
  EXPECT_THAT(waits(), IsEmpty());
}

TEST_F(CoordinatorWaits, NameTheShardWhoseReportIsMissing) {
  begin();
  finish(0);
  finish(1);
  time_->advance(2s);
  EXPECT_THAT(waits(), ElementsAre("the end of the run waits for the report of shard 0"));
  EXPECT_EQ(span_, 2s);
  report_shard_of(0);
  EXPECT_THAT(waits(), ElementsAre("the end of the run waits for the report of shard 1"));
}

/// Two devices, which are workers or incarnations of one, and a shard. A switch of policy pauses some.
class Pauses : public testing::CoordinatorTest {
protected:
  void begin(std::uint32_t workers, std::shared_ptr<const recording> replayed = {}) {
    start_coordinator([&](coordinator_options& o) {
      o.workers = workers;
      o.elastic = true;
      o.shards.pop_back();
      o.replayed = std::move(replayed);
    });
    join(workers);
  }
  std::vector<switch_policy>& switches() { return shards_[0].heard<switch_policy>(); }
};

/// It was lost in the recorded run while the other one was paused. Its last gradient may wait for what that
/// one sends when it is paused.
TEST_F(Pauses, LeaveOutInAReplayWhoHadEndedAndDoNotWaitForItsEnd) {
  recording r;
  r.header.workers = 2;
  r.batches.resize(2);
  r.entries.resize(1);
  r.end.switches = {{"sync", "by hand", {0, 0}, {1, 0}}};
  begin(2, std::make_shared<const recording>(r));
  tell(coordinator_, step_reached{1});
  EXPECT_THAT(devices_[0].heard<pause_worker>(), SizeIs(1));
  EXPECT_THAT(devices_[1].heard<pause_worker>(), IsEmpty());
  tell(coordinator_, worker_paused{{0}, {1}, {3}, 3});
  EXPECT_THAT(switches(), IsEmpty()) << "worker 1 has not ended yet";
  finish(1, 0, 0);
  EXPECT_THAT(only(switches()).present, ElementsAre(1, 0));
}

/// Both pauses are for the same epoch, since the first switch was taken back.
TEST_F(Pauses, TakeNoWordOfAnEarlierIncarnation) {
  begin(1);
  tell(coordinator_, request_switch{"sync", "by hand"});
  EXPECT_THAT(devices_[0].heard<pause_worker>(), SizeIs(1));
  join_late(0, 1, devices_[1]);
  tell(coordinator_, trained_reported{{0}, {0}, {0}, 0, 0});
  tell(coordinator_, share_ended{{0}, {0}});
  EXPECT_EQ(only(devices_[1].heard<pause_worker>()).epoch, policy_epoch{1});
  tell(coordinator_, worker_paused{{0}, {1}, {3}, 3});
  EXPECT_THAT(switches(), IsEmpty()) << "the second one has not paused";
  tell(coordinator_, worker_paused{{0}, {1}, {0}, 0, {1}});
  EXPECT_THAT(switches(), SizeIs(1));
}

} // namespace
} // namespace mailgrad
