#include <mailgrad/tests/actors/worker/device_actor_fixture.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <limits>
#include <vector>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using testing::DeviceActor;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(DeviceActor, JoinsEverybodyAndAsksForABatch) {
  begin();
  for (std::size_t s = 0; s < 2; ++s) {
    ASSERT_THAT(shards_[s].heard<join_shard>(), SizeIs(1));
    EXPECT_EQ(shards_[s].heard<join_shard>()[0].worker, rank{3});
    EXPECT_EQ(shards_[s].heard<join_shard>()[0].device, device_);
  }
  EXPECT_THAT(coordinator_.heard<worker_joined>(), SizeIs(1));
  EXPECT_EQ(batches_asked_for(), 1U);
}

TEST_F(DeviceActor, WaitsForTheWeightsOfEveryShard) {
  begin();
  give_batch();
  give_weights(1, 0);
  EXPECT_THAT(pushed_to(0), IsEmpty());
  give_weights(0, 0);
  EXPECT_THAT(pushed_to(0), SizeIs(1));
}

TEST_F(DeviceActor, PushesEachGradientOnceToEveryShardWithTheVersionItRead) {
  begin();
  give_weights(0, 7);
  give_weights(1, 9);
  give_batch();
  for (std::size_t s = 0; s < 2; ++s) {
    ASSERT_THAT(pushed_to(s), SizeIs(1));
    EXPECT_EQ(pushed_to(s)[0].header.id.worker, rank{3});
    EXPECT_EQ(pushed_to(s)[0].header.id.step.value, 1U);
    EXPECT_EQ(pushed_to(s)[0].header.version_read.value, s == 0 ? 7U : 9U);
    EXPECT_EQ(std::bit_cast<float>(pushed_to(s)[0].header.scale_bits), 1.0F);
  }
  EXPECT_EQ(pushed_to(0)[0].payload.values, pushed_to(1)[0].payload.values)
      << "one block, which nobody copies";
  give_batch();
  give_weights(0, 8);
  EXPECT_THAT(pushed_to(0), SizeIs(1)) << "the weights of shard 1 are still to come";
  give_weights(1, 10);
  ASSERT_THAT(pushed_to(0), SizeIs(2));
  EXPECT_EQ(pushed_to(0)[1].header.id.step.value, 2U);
}

TEST_F(DeviceActor, AsksForTheNextBatchBeforeItComputes) {
  begin();
  give_all_weights(0);
  give_batch();
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
  for (std::uint64_t step = 0; step < 3; ++step) {
    give_all_weights(step);
    give_batch();
  }
  EXPECT_NE(pushed_to(0)[0].payload.values, pushed_to(0)[1].payload.values);
  EXPECT_NE(pushed_to(0)[1].payload.values, pushed_to(0)[2].payload.values);
  const gradient* const first = pushed_to(0)[0].payload.values.get();
  for (std::size_t s = 0; s < 2; ++s) pushed_to(s).clear();
  give_all_weights(3);
  give_batch();
  EXPECT_EQ(pushed_to(0)[0].payload.values.get(), first) << "nobody holds it any longer";
}

TEST_F(DeviceActor, FinishesWhenTheFeederHasNoMore) {
  begin();
  give_all_weights(0);
  give_batch();
  tell(device_, data_exhausted{});
  EXPECT_THAT(coordinator_.heard<worker_finished>(), IsEmpty()) << "its gradient is not answered yet";
  give_weights(0, 1);
  EXPECT_THAT(coordinator_.heard<worker_finished>(), IsEmpty());
  give_weights(1, 1);
  ASSERT_THAT(coordinator_.heard<worker_finished>(), SizeIs(1));
  const worker_report r = coordinator_.heard<worker_finished>()[0].report;
  EXPECT_EQ(r.worker, rank{3});
  EXPECT_EQ(r.produced, 1U);
  EXPECT_EQ(r.samples, 4U);
  EXPECT_TRUE(std::isfinite(std::bit_cast<float>(r.loss_bits)));
  for (shard_probe& s : shards_) EXPECT_THAT(s.heard<worker_left>(), SizeIs(1));
  EXPECT_THAT(feeder_.heard<worker_left>(), SizeIs(1));
}

TEST_F(DeviceActor, DoesNotPushAGradientWhoseLossIsNoNumber) {
  begin();
  give_all_weights(0);
  give_batch();
  give_all_weights(1);
  give_batch(4, std::numeric_limits<float>::quiet_NaN());
  EXPECT_THAT(pushed_to(0), SizeIs(1));
  EXPECT_THAT(pushed_to(1), SizeIs(1));
  ASSERT_THAT(coordinator_.heard<loss_diverged>(), SizeIs(1));
  const loss_diverged d = coordinator_.heard<loss_diverged>()[0];
  EXPECT_EQ(d.step, 2U);
  EXPECT_EQ(d.report.produced, 2U);
  EXPECT_EQ(d.report.not_finite, 1U);
  EXPECT_TRUE(std::isfinite(std::bit_cast<float>(d.report.loss_bits))) << "the last finite one";
  EXPECT_THAT(coordinator_.heard<worker_finished>(), IsEmpty()) << "it is accounted for once";
  EXPECT_THAT(shards_[0].heard<worker_left>(), SizeIs(1));
}

TEST_F(DeviceActor, SaysWhyItFailed) {
  begin();
  give_all_weights(0);
  give_batch(unlucky_batch);
  ASSERT_THAT(coordinator_.heard<worker_failed>(), SizeIs(1));
  EXPECT_EQ(coordinator_.heard<worker_failed>()[0].why, "dense1: no memory for such a batch");
  EXPECT_EQ(coordinator_.heard<worker_failed>()[0].report.produced, 0U);
  EXPECT_THAT(coordinator_.heard<worker_finished>(), IsEmpty());
  EXPECT_THAT(pushed_to(0), IsEmpty());
}

TEST_F(DeviceActor, IsLostWithItsGpu) {
  ends_with_gpu_ = true;
  why_unlucky_ = std::make_exception_ptr(device_error(world_errc::device_failure, "launch: GPU lost"));
  begin();
  give_all_weights(0);
  give_batch(unlucky_batch);
  EXPECT_TRUE(runner_.expired()) << "it has ended";
  EXPECT_THAT(coordinator_.heard<worker_failed>(), IsEmpty());
  EXPECT_THAT(shards_[0].heard<worker_left>(), IsEmpty());
}

/// Such as an operation of a user's own that runs on the CPU alone.
TEST_F(DeviceActor, FailsTheRunByWhatTheNextWorkerWouldMeetAsWell) {
  ends_with_gpu_ = true;
  why_unlucky_ =
      std::make_exception_ptr(device_error(world_errc::no_such_device, "huber: runs on the CPU alone"));
  begin();
  give_all_weights(0);
  give_batch(unlucky_batch);
  ASSERT_THAT(coordinator_.heard<worker_failed>(), SizeIs(1));
  EXPECT_EQ(coordinator_.heard<worker_failed>()[0].why, "huber: runs on the CPU alone");
}

TEST_F(DeviceActor, ScalesALongGradientDownToTheLargestNorm) {
  constexpr double largest = 1e-3;
  begin(largest);
  give_all_weights(0);
  give_batch();
  const push_gradient& push = pushed_to(0)[0];
  double squares = 0;
  for (const float g : push.payload.values->dense.on_host<float>())
    squares += static_cast<double>(g) * static_cast<double>(g);
  const auto scale = static_cast<double>(std::bit_cast<float>(push.header.scale_bits));
  EXPECT_LT(scale, 1);
  EXPECT_NEAR(std::sqrt(squares) * scale, largest, 1e-4 * largest + 1e-6);
  EXPECT_EQ(pushed_to(1)[0].header.scale_bits, push.header.scale_bits)
      << "the norm is that of the whole gradient";
}

TEST_F(DeviceActor, AddsUpTheLongestWaitOfEachStep) {
  begin();
  give_all_weights(0);
  give_batch();
  give_batch();
  give_weights(0, 1, 2s);
  give_weights(1, 1, 3s);
  tell(device_, data_exhausted{});
  give_all_weights(2);
  EXPECT_EQ(instant{coordinator_.heard<worker_finished>().at(0).report.barrier_wait}, 3s);
}

TEST_F(DeviceActor, CountsTheTimeItWaitsForABatch) {
  begin();
  give_all_weights(0);
  time_->advance(4s);
  give_batch();
  give_batch();
  time_->advance(7s);
  give_all_weights(1); // the batch was there first
  tell(device_, data_exhausted{});
  give_all_weights(2);
  EXPECT_EQ(instant{coordinator_.heard<worker_finished>().at(0).report.feeder_wait}, 4s);
}

TEST_F(DeviceActor, SaysInWordsWhatItWaitsFor) {
  begin();
  give_weights(0, 0);
  const auto first = ask<wait_reason>(device_, list_wait_reasons{}).heard<wait_reason>();
  ASSERT_THAT(first, SizeIs(1));
  EXPECT_THAT(first[0].what, HasSubstr("worker 3 waits for the weights of 1 of 2 shards"));
  give_weights(1, 0);
  const auto second = ask<wait_reason>(device_, list_wait_reasons{}).heard<wait_reason>();
  ASSERT_THAT(second, SizeIs(1));
  EXPECT_THAT(second[0].what, HasSubstr("worker 3 waits for a batch"));
}

TEST_F(DeviceActor, ReportsAndEndsWhenItIsToldToGiveUp) {
  begin();
  give_all_weights(0);
  give_batch();
  tell(device_, give_up{});
  ASSERT_THAT(coordinator_.heard<worker_finished>(), SizeIs(1));
  EXPECT_EQ(coordinator_.heard<worker_finished>()[0].report.produced, 1U);
}

TEST_F(DeviceActor, TellsTheTrackerAFewTimesASecond) {
  begin();
  for (std::uint64_t step = 0; step < 10; ++step) {
    time_->advance(30ms);
    give_all_weights(step);
    give_batch();
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
  const worker_report r = coordinator_.heard<worker_finished>().at(0).report;
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

} // namespace
} // namespace mailgrad
