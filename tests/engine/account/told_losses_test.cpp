#include <mailgrad/engine/account/report_of_run.hpp>

#include <gtest/gtest.h>

#include <bit>

namespace mailgrad {
namespace {

TEST(ToldLosses, LeaveWhatIsKnownOfAWorkerThatHasToldNothing) {
  told_losses losses(2);
  losses.take({1}, 0, 0, 0);
  worker_report known;
  known.worker = {1};
  known.last_losses.add(3, 4);
  losses.give(known, {});
  EXPECT_EQ(known.last_losses.samples(), 4U);
}

TEST(ToldLosses, CountEachStepOfANoticeByItsMean) {
  told_losses losses(2);
  losses.take({0}, 1, 8, 80);
  losses.take({1}, 2, 16, 32);
  losses.take({1}, 1, 8, 40);
  worker_report known;
  known.worker = {1};
  known.last_losses.add(1000, 8);
  losses.give(known, {});
  EXPECT_EQ(known.last_losses.samples(), 24U);
  EXPECT_DOUBLE_EQ(known.last_losses.sum(), 72);
  EXPECT_EQ(std::bit_cast<float>(known.loss_bits), 5) << "the last finite loss, as far as it is known";
}

TEST(ToldLosses, KeepAsManyStepsAsTheReportOfAWorker) {
  told_losses losses(1);
  losses.take({0}, 10'000, 80'000, 80'000);
  losses.take({0}, 2, 16, 48);
  worker_report known;
  losses.give(known, {});
  EXPECT_EQ(known.last_losses.samples(), 8 * loss_tail::steps);
  EXPECT_DOUBLE_EQ(known.last_losses.sum(), 8 * (static_cast<double>(loss_tail::steps) + 4));
}

TEST(ToldLosses, TakeNothingOfAWorkerThatThereIsNot) {
  told_losses losses(1);
  losses.take({7}, 1, 8, 80);
  worker_report known;
  losses.give(known, {});
  EXPECT_EQ(known.last_losses.samples(), 0U);
}

TEST(ToldLosses, AddWhatALostIncarnationWaitedToTheSumsOfEarlierOnes) {
  told_losses losses(1);
  losses.add({0}, {9, 9, 9, 9});
  losses.begin({0});
  losses.add({0}, {1, 2, 3, 4});
  losses.add({0}, {10, 20, 30, 40});
  losses.add({7}, {1, 1, 1, 1});
  worker_report known;
  known.add({100, 100, 100, 100});
  worker_report copy;
  copy.feeder_wait = 150;
  losses.give(known, copy);
  EXPECT_EQ(known.barrier_wait, 111);
  EXPECT_EQ(known.bound_wait, 122);
  EXPECT_EQ(known.feeder_wait, 150) << "its last copy is newer than its last notice";
  EXPECT_EQ(known.own_bytes, 144U);
}

} // namespace
} // namespace mailgrad
