#include <mailgrad/tests/actors/worker/device_actor_fixture.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using testing::DeviceActor, testing::only;
using ::testing::HasSubstr, ::testing::IsEmpty, ::testing::SizeIs;

TEST_F(DeviceActor, JoinsEverybodyAndAsksForABatch) {
  begin();
  for (shard_probe& s : shards_) {
    EXPECT_EQ(only(s.heard<join_shard>()).worker, rank{3});
    EXPECT_EQ(s.heard<join_shard>()[0].device, device_);
  }
  EXPECT_THAT(coordinator_.heard<worker_joined>(), SizeIs(1));
  EXPECT_EQ(batches_asked_for(), 1U);
}

TEST_F(DeviceActor, PushesEachGradientOnceToEveryShardWithTheVersionItRead) {
  begin();
  give_weights(0, 7);
  give_weights(1, 9);
  give_batch();
  for (std::size_t s = 0; s < 2; ++s) {
    const gradient_header& x = only(pushed_to(s)).header;
    EXPECT_EQ(x.id.worker, rank{3});
    EXPECT_EQ(x.id.step.value, 1U);
    EXPECT_EQ(x.version_read.value, s == 0 ? 7U : 9U);
    EXPECT_EQ(std::bit_cast<float>(x.scale_bits), 1.0F);
  }
  EXPECT_EQ(pushed_to(0)[0].payload.values, pushed_to(1)[0].payload.values) << "one block, not copied";
  give_batch();
  give_weights(0, 8);
  EXPECT_THAT(pushed_to(0), SizeIs(1)) << "the weights of shard 1 are still to come";
  give_weights(1, 10);
  ASSERT_THAT(pushed_to(0), SizeIs(2));
  EXPECT_EQ(pushed_to(0)[1].header.id.step.value, 2U);
}

TEST_F(DeviceActor, AsksForTheNextBatchBeforeItComputes) {
  begin_with_a_step();
  EXPECT_EQ(batches_asked_for(), 2U);
  give_batch();
  EXPECT_EQ(batches_asked_for(), 2U) << "one ahead, not two";
}

TEST_F(DeviceActor, LetsItsWeightsGoBeforeItPushes) {
  begin();
  give_all_weights(0);
  EXPECT_FALSE(given_[0].expired());
  give_batch();
  EXPECT_TRUE(given_[0].expired());
  EXPECT_TRUE(given_[1].expired());
}

TEST_F(DeviceActor, DoesNotReuseAGradientThatAShardHolds) {
  begin();
  for (std::uint64_t step = 0; step < 3; ++step) begin_step(step);
  EXPECT_NE(pushed_to(0)[0].payload.values, pushed_to(0)[1].payload.values);
  EXPECT_NE(pushed_to(0)[1].payload.values, pushed_to(0)[2].payload.values);
  const gradient* const first = pushed_to(0)[0].payload.values.get();
  for (std::size_t s = 0; s < 2; ++s) pushed_to(s).clear();
  begin_step(3);
  EXPECT_EQ(pushed_to(0)[0].payload.values.get(), first) << "nobody holds it any longer";
}

TEST_F(DeviceActor, FinishesWhenTheFeederHasNoMore) {
  begin_with_a_step();
  tell(device_, data_exhausted{});
  EXPECT_EQ(reports(), 0U) << "its gradient is not answered yet";
  give_weights(0, 1);
  EXPECT_EQ(reports(), 0U);
  give_weights(1, 1);
  const worker_report r = finished();
  EXPECT_EQ(r.worker, rank{3});
  EXPECT_EQ(r.produced, 1U);
  EXPECT_EQ(r.samples, 4U);
  EXPECT_TRUE(std::isfinite(std::bit_cast<float>(r.loss_bits)));
  for (shard_probe& s : shards_) EXPECT_THAT(s.heard<worker_left>(), SizeIs(1));
  EXPECT_THAT(feeder_.heard<worker_left>(), SizeIs(1));
}

TEST_F(DeviceActor, DoesNotPushAGradientWhoseLossIsNoNumber) {
  begin_with_a_step();
  give_all_weights(1);
  give_batch(4, std::numeric_limits<float>::quiet_NaN());
  for (std::size_t s = 0; s < 2; ++s) EXPECT_THAT(pushed_to(s), SizeIs(1));
  const loss_diverged d = only(coordinator_.heard<loss_diverged>());
  EXPECT_EQ(d.step, 2U);
  EXPECT_EQ(d.report.produced, 2U);
  EXPECT_EQ(d.report.not_finite, 1U);
  EXPECT_TRUE(std::isfinite(std::bit_cast<float>(d.report.loss_bits))) << "the last finite one";
  EXPECT_EQ(reports(), 0U) << "it is accounted for once";
  EXPECT_THAT(shards_[0].heard<worker_left>(), SizeIs(1));
}

TEST_F(DeviceActor, SaysWhyItFailed) {
  begin_with_a_step(unlucky_batch);
  EXPECT_EQ(only(coordinator_.heard<worker_failed>()).why, "dense1: no memory for it");
  EXPECT_EQ(coordinator_.heard<worker_failed>()[0].report.produced, 0U);
  EXPECT_EQ(reports(), 0U);
  EXPECT_THAT(pushed_to(0), IsEmpty());
}

TEST_F(DeviceActor, IsLostWithItsGpu) {
  ends_with_gpu_ = true;
  why_unlucky_ = std::make_exception_ptr(device_error(world_errc::device_failure, "launch: GPU lost"));
  begin_with_a_step(unlucky_batch);
  EXPECT_TRUE(runner_.expired()) << "it has ended";
  EXPECT_THAT(coordinator_.heard<worker_failed>(), IsEmpty());
  EXPECT_THAT(shards_[0].heard<worker_left>(), IsEmpty());
}

/// Such as an operation of a user's own that runs on the CPU alone.
TEST_F(DeviceActor, FailsTheRunByWhatTheNextWorkerWouldMeetAsWell) {
  ends_with_gpu_ = true;
  why_unlucky_ = std::make_exception_ptr(device_error(world_errc::no_such_device, "huber: on the CPU alone"));
  begin_with_a_step(unlucky_batch);
  EXPECT_EQ(only(coordinator_.heard<worker_failed>()).why, "huber: on the CPU alone");
}

TEST_F(DeviceActor, ScalesALongGradientDownToTheLargestNorm) {
  constexpr double largest = 1e-3;
  begin(largest);
  begin_step();
  const push_gradient& push = pushed_to(0)[0];
  double squares = 0;
  for (const float g : push.payload.values->dense.on_host<float>())
    squares += static_cast<double>(g) * static_cast<double>(g);
  const auto scale = static_cast<double>(std::bit_cast<float>(push.header.scale_bits));
  EXPECT_LT(scale, 1);
  EXPECT_NEAR(std::sqrt(squares) * scale, largest, 1e-4 * largest + 1e-6);
  EXPECT_EQ(pushed_to(1)[0].header.scale_bits, push.header.scale_bits) << "by the norm of the whole gradient";
}

TEST_F(DeviceActor, CountsTheLongestWaitOfEachStepAndThatForABatch) {
  begin();
  give_all_weights(0);
  time_->advance(4s);
  give_batch();
  give_batch();
  time_->advance(7s); // the batch is there first
  give_weights(0, 1, 2s);
  give_weights(1, 1, 3s);
  const worker_report r = finished_at(2);
  EXPECT_EQ(instant{r.feeder_wait}, 4s);
  EXPECT_EQ(instant{r.barrier_wait}, 3s);
}

TEST_F(DeviceActor, SaysInWordsWhatItWaitsFor) {
  begin();
  give_weights(0, 0);
  EXPECT_THAT(only(waits()).what, HasSubstr("worker 3 waits for the weights of 1 of 2 shards"));
  give_weights(1, 0);
  EXPECT_THAT(only(waits()).what, HasSubstr("worker 3 waits for a batch"));
}

TEST_F(DeviceActor, TellsTheTrackerAFewTimesASecond) {
  begin();
  for (std::uint64_t step = 0; step < 10; ++step) {
    time_->advance(30ms);
    begin_step(step);
  }
  const auto& notices = tracker_.heard<worker_progress>();
  EXPECT_THAT(notices, SizeIs(3)) << "one of them of the first step";
  std::uint64_t steps = 0;
  for (const worker_progress& p : notices) steps += p.steps;
  EXPECT_EQ(steps, 9U);
}

TEST_F(DeviceActor, WritesIntoTheSharedBlockItselfInHogwild) {
  begin(0, true);
  const float before = store_->load(0);
  give_batch();
  EXPECT_EQ(store_->version(), 1U);
  give_batch();
  EXPECT_EQ(store_->version(), 2U);
  EXPECT_NE(store_->load(0), before);
  tell(device_, data_exhausted{});
  const worker_report r = finished();
  EXPECT_EQ(r.applied, 2U);
  EXPECT_EQ(r.produced, 2U);
  EXPECT_EQ(r.gaps.total(), 2U);
  EXPECT_EQ(r.gaps.max(), 0U);
}

TEST_F(DeviceActor, LeavesTheSharedBlockAloneWhenTheLossIsNoNumber) {
  begin(0, true);
  give_batch(4, std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(store_->version(), 0U);
  std::vector<float> values(store_->size());
  store_->load(0, values);
  EXPECT_TRUE(std::ranges::all_of(values, [](float v) { return std::isfinite(v); }));
  EXPECT_THAT(coordinator_.heard<loss_diverged>(), SizeIs(1));
}

TEST_F(DeviceActor, TakesNoPartBeforeItHasASlotIfItIsLate) {
  incarnation_ = 2;
  begin();
  EXPECT_TRUE(only(coordinator_.heard<worker_joined>()).late);
  EXPECT_THAT(shards_[0].heard<join_shard>(), IsEmpty());
  EXPECT_EQ(batches_asked_for(), 0U);
  tell(device_, slot_given{});
  EXPECT_EQ(only(shards_[0].heard<join_shard>()).incarnation, incarnation_number{2});
  EXPECT_EQ(only(feeder_.heard<next_batch>()).incarnation, incarnation_number{2});
}

TEST_F(DeviceActor, AnswersForItsBooksBeforeItHasASlot) {
  incarnation_ = 2;
  begin();
  const worker_report so_far = only(ask<worker_books>(device_, copy_books{}).heard<worker_books>()).so_far;
  EXPECT_EQ(so_far.worker, rank{3});
  EXPECT_EQ(so_far.steps, 0U);
}

/// It adds to what earlier incarnations did, and tells shards and feeder what it did itself.
TEST_F(DeviceActor, GoesOnCountingWhereTheIncarnationBeforeEnded) {
  incarnation_ = 1;
  begin();
  slot_given slot;
  slot.so_far.worker = {3};
  slot.so_far.steps = slot.so_far.produced = 7;
  slot.so_far.samples = 28;
  tell(device_, slot);
  begin_step(9);
  EXPECT_EQ(only(pushed_to(0)).header.id.step, step_number{1});
  EXPECT_EQ(pushed_to(0)[0].header.batches, 1U);
  tell(device_, data_exhausted{});
  give_all_weights(10);
  const worker_finished& end = only(coordinator_.heard<worker_finished>());
  EXPECT_EQ(end.incarnation, incarnation_number{1});
  EXPECT_EQ(end.report.steps, 8U);
  EXPECT_EQ(end.report.produced, 8U);
  EXPECT_EQ(end.report.samples, 32U);
  EXPECT_EQ(end.why_left, "");
}

TEST_F(DeviceActor, JoinsInTheEpochOfItsSlot) {
  incarnation_ = 1;
  begin();
  tell(device_, slot_given{{4}, {}, 0});
  begin_step(0); // with weights of epoch 0
  EXPECT_THAT(pushed_to(0), IsEmpty());
}

TEST_F(DeviceActor, LeavesAfterTheStepUnderWayAndGivesItsNextBatchBack) {
  begin_with_a_step();
  give_batch();
  auto owner = ask<worker_left>(device_, leave_run{});
  EXPECT_EQ(reports(), 0U) << "its gradient is not answered";
  EXPECT_THAT(owner.heard<worker_left>(), IsEmpty());
  give_all_weights(1);
  EXPECT_NE(only(coordinator_.heard<worker_finished>()).why_left, "");
  EXPECT_THAT(pushed_to(0), SizeIs(1));
  EXPECT_EQ(only(feeder_.heard<deal_again>()).trained, 1U);
  EXPECT_THAT(feeder_.heard<worker_left>(), SizeIs(1));
  EXPECT_THAT(shards_[1].heard<worker_left>(), SizeIs(1));
  EXPECT_EQ(only(owner.heard<worker_left>()).worker, rank{3});
}

TEST_F(DeviceActor, TellsItsOwnerNothingIfTheRunEndsBeforeItCanLeave) {
  begin_with_a_step();
  auto owner = ask<worker_left>(device_, leave_run{});
  tell(device_, give_up{});
  EXPECT_EQ(finished().produced, 1U);
  EXPECT_EQ(coordinator_.heard<worker_finished>()[0].why_left, "");
  EXPECT_THAT(owner.heard<worker_left>(), IsEmpty());
}

TEST_F(DeviceActor, LeavesWithoutAWordIfItHasNoSlot) {
  incarnation_ = 1;
  begin();
  auto owner = ask<worker_left>(device_, leave_run{});
  EXPECT_THAT(owner.heard<worker_left>(), SizeIs(1)) << "but to its owner";
  tell(device_, slot_given{});
  EXPECT_THAT(shards_[0].heard<join_shard>(), IsEmpty());
}

/// A worker of hogwild that stands still for a checkpoint.
class HeldDeviceActor : public DeviceActor {};

TEST_F(HeldDeviceActor, EndsTheStepUnderWayBeforeItMarks) {
  late_.emplace(1);
  begin(0, true);
  give_batch();
  tell(device_, hold_for_checkpoint{1});
  EXPECT_EQ(store_->version(), 0U);
  EXPECT_EQ(parts(), 0U) << "the step has read the block and will write to it";
  give_batch();
  end_a_late_step();
  ASSERT_EQ(parts(), 1U);
  EXPECT_EQ(kept(0).steps, 1U);
  EXPECT_EQ(kept(0).applied, 1U);
  EXPECT_EQ(only(feeder_.heard<worker_marked>()).trained, 1U) << "not the batch that lies ready";
  EXPECT_EQ(late_->under_way(), 0U) << "it stands still";
  EXPECT_EQ(store_->version(), 1U);
  tell(device_, block_copied{1});
  EXPECT_EQ(late_->under_way(), 1U);
  end_a_late_step();
  EXPECT_EQ(store_->version(), 2U);
}

TEST_F(HeldDeviceActor, CountsAndNamesItsWait) {
  keeps_end_ = true;
  begin(0, true);
  tell(device_, hold_for_checkpoint{3});
  ASSERT_EQ(parts(), 1U);
  time_->advance(instant{500});
  EXPECT_EQ(only(waits()).what, "worker 3 waits for the block to be copied for checkpoint 3");
  EXPECT_EQ(waits()[0].span, 500);
  tell(device_, data_exhausted{});
  EXPECT_EQ(reports(), 0U) << "what it waits for comes first";
  tell(device_, block_copied{3});
  tell(device_, mark_at_end{0});
  EXPECT_EQ(finished().barrier_wait, 500);
  EXPECT_TRUE(coordinator_.heard<worker_finished>()[0].in_block) << "for a checkpoint after its end";
}

TEST_F(HeldDeviceActor, GoesOnAfterItsOwnCheckpointAlone) {
  begin(0, true);
  tell(device_, hold_for_checkpoint{2});
  tell(device_, block_copied{1});
  give_batch();
  EXPECT_EQ(store_->version(), 0U);
  tell(device_, block_copied{2});
  EXPECT_EQ(store_->version(), 1U);
  tell(device_, hold_for_checkpoint{2});
  give_batch();
  EXPECT_EQ(store_->version(), 2U) << "that one is over";
}

TEST_F(HeldDeviceActor, EndsAtOnceIfItIsToldTo) {
  begin(0, true);
  tell(device_, hold_for_checkpoint{1});
  tell(device_, give_up{});
  EXPECT_EQ(reports(), 1U);
}

/// A device actor that tells its timeline to a coordinator in another process.
class ReportingDeviceActor : public DeviceActor {
protected:
  ReportingDeviceActor() {
    trace_ = std::make_shared<trace_track>("worker 3", 100, time_->now());
    tells_trace_ = "cpu:0";
  }
  std::size_t pieces() { return coordinator_.heard<trace_reported>().size(); }
  void begin_and_train() {
    begin_with_a_step();
    tell(device_, data_exhausted{});
    give_all_weights(1);
  }
};

/// What is behind the report would not be counted as told.
TEST_F(ReportingDeviceActor, ReportsWhenItHasToldTheRestOfItsTimeline) {
  begin_and_train();
  EXPECT_THAT(shards_[0].heard<worker_left>(), SizeIs(1)) << "nobody waits for its timeline";
  EXPECT_THAT(feeder_.heard<worker_left>(), SizeIs(1));
  EXPECT_EQ(pieces(), 1U);
  EXPECT_EQ(reports(), 0U) << "the first piece is not answered";
  EXPECT_EQ(only(waits()).what, "worker 3 waits for the coordinator to take its timeline");
  tell(device_, trace_taken{});
  EXPECT_EQ(pieces(), 2U);
  EXPECT_EQ(finished().steps, 1U);
}

TEST_F(ReportingDeviceActor, ReportsWithoutTheRestIfItIsToldToGiveUp) {
  begin_and_train();
  tell(device_, give_up{});
  EXPECT_EQ(reports(), 1U);
  EXPECT_EQ(pieces(), 1U);
  tell(device_, give_up{});
  EXPECT_EQ(reports(), 1U);
}

/// Nobody answers it any more, as when the connection to the server is lost.
TEST_F(ReportingDeviceActor, EndsIfTheCoordinatorIsNoMore) {
  begin_and_train();
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

/// A device actor that adds its gradients to those of worker 2. Workers 0 and 1 have left the sums.
class SummedDeviceActor : public DeviceActor {
protected:
  SummedDeviceActor() {
    for (const std::size_t gone : {0, 1}) all_.join(gone).reset();
    sums_ = all_.join(3);
  }
  void let_the_other_add() {
    numbers_.resize(layout_->dense_size());
    other_->add(numbers_, {}, [](const auto&) {});
    run();
  }

  net::played_sums all_{4};
  std::shared_ptr<net::all_reduce> other_ = all_.join(2);
  std::vector<float> numbers_;
};

TEST_F(SummedDeviceActor, PushesAndGoesOnWhenTheSumOfAllWorkersIsThere) {
  begin_with_a_step();
  give_batch();
  EXPECT_THAT(pushed_to(0), IsEmpty());
  let_the_other_add();
  EXPECT_EQ(only(pushed_to(0)).header.sum->carrier, rank{2});
  EXPECT_EQ(all_.rounds(), 1U);
  give_all_weights(1);
  let_the_other_add();
  EXPECT_THAT(pushed_to(0), SizeIs(2));
}

TEST_F(SummedDeviceActor, LeavesTheSumOfAllWorkersAtOnceWhenItGivesUp) {
  late_.emplace(1);
  begin_with_a_step();
  let_the_other_add();
  EXPECT_EQ(all_.rounds(), 0U);
  tell(device_, give_up{});
  EXPECT_EQ(all_.rounds(), 1U) << "others need not wait until its step has ended";
  end_a_late_step();
}

} // namespace
} // namespace mailgrad
