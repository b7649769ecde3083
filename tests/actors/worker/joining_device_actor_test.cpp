#include <mailgrad/tests/actors/worker/device_actor_fixture.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mailgrad {
namespace {

using testing::DeviceActor;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(DeviceActor, TakesNoPartBeforeItHasASlotIfItIsLate) {
  incarnation_ = 2;
  begin();
  ASSERT_THAT(coordinator_.heard<worker_joined>(), SizeIs(1));
  EXPECT_TRUE(coordinator_.heard<worker_joined>()[0].late);
  EXPECT_THAT(shards_[0].heard<join_shard>(), IsEmpty());
  EXPECT_EQ(batches_asked_for(), 0U);
  tell(device_, slot_given{});
  ASSERT_THAT(shards_[0].heard<join_shard>(), SizeIs(1));
  EXPECT_EQ(shards_[0].heard<join_shard>()[0].incarnation, incarnation_number{2});
  ASSERT_EQ(batches_asked_for(), 1U);
  EXPECT_EQ(feeder_.heard<next_batch>()[0].incarnation, incarnation_number{2});
}

TEST_F(DeviceActor, AnswersForItsBooksBeforeItHasASlot) {
  incarnation_ = 2;
  begin();
  const auto books = ask<worker_books>(device_, copy_books{}).heard<worker_books>();
  ASSERT_THAT(books, SizeIs(1));
  EXPECT_EQ(books[0].so_far.worker, rank{3});
  EXPECT_EQ(books[0].so_far.steps, 0U);
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
  give_all_weights(9);
  give_batch();
  ASSERT_THAT(pushed_to(0), SizeIs(1));
  EXPECT_EQ(pushed_to(0)[0].header.id.step, step_number{1});
  EXPECT_EQ(pushed_to(0)[0].header.batches, 1U);
  tell(device_, data_exhausted{});
  give_all_weights(10);
  ASSERT_THAT(coordinator_.heard<worker_finished>(), SizeIs(1));
  const worker_finished& end = coordinator_.heard<worker_finished>()[0];
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
  give_all_weights(0); // of epoch 0
  give_batch();
  EXPECT_THAT(pushed_to(0), IsEmpty());
}

TEST_F(DeviceActor, LeavesAfterTheStepUnderWayAndGivesItsNextBatchBack) {
  begin();
  give_all_weights(0);
  give_batch();
  give_batch();
  auto owner = ask<worker_left>(device_, leave_run{});
  EXPECT_THAT(coordinator_.heard<worker_finished>(), IsEmpty()) << "its gradient is not answered";
  EXPECT_THAT(owner.heard<worker_left>(), IsEmpty());
  give_all_weights(1);
  ASSERT_THAT(coordinator_.heard<worker_finished>(), SizeIs(1));
  EXPECT_NE(coordinator_.heard<worker_finished>()[0].why_left, "");
  EXPECT_THAT(pushed_to(0), SizeIs(1));
  ASSERT_THAT(feeder_.heard<deal_again>(), SizeIs(1));
  EXPECT_EQ(feeder_.heard<deal_again>()[0].trained, 1U);
  EXPECT_THAT(feeder_.heard<worker_left>(), SizeIs(1));
  EXPECT_THAT(shards_[1].heard<worker_left>(), SizeIs(1));
  ASSERT_THAT(owner.heard<worker_left>(), SizeIs(1));
  EXPECT_EQ(owner.heard<worker_left>()[0].worker, rank{3});
}

/// Its owner learns that it has not left early.
TEST_F(DeviceActor, TellsItsOwnerNothingIfTheRunEndsBeforeItCanLeave) {
  begin();
  give_all_weights(0);
  give_batch();
  auto owner = ask<worker_left>(device_, leave_run{});
  tell(device_, give_up{});
  ASSERT_THAT(coordinator_.heard<worker_finished>(), SizeIs(1));
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

} // namespace
} // namespace mailgrad
