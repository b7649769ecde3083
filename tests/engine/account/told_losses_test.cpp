#include <mailgrad/engine/account/told_losses.hpp>

#include <gtest/gtest.h>

namespace mailgrad {
namespace {

TEST(ToldLosses, LeaveWhatIsKnownOfAWorkerThatHasToldNothing) {
  told_losses losses(2);
  losses.take({1}, 0, 0, 0);
  loss_tail known;
  known.add(3, 4);
  losses.give({1}, known);
  EXPECT_EQ(known.samples(), 4U);
}

TEST(ToldLosses, CountEachStepOfANoticeByItsMean) {
  told_losses losses(2);
  losses.take({0}, 1, 8, 80);
  losses.take({1}, 2, 16, 32);
  losses.take({1}, 1, 8, 40);
  loss_tail known;
  known.add(1000, 8);
  losses.give({1}, known);
  EXPECT_EQ(known.samples(), 24U);
  EXPECT_DOUBLE_EQ(known.sum(), 72);
}

TEST(ToldLosses, KeepAsManyStepsAsTheReportOfAWorker) {
  told_losses losses(1);
  losses.take({0}, 10'000, 80'000, 80'000);
  losses.take({0}, 2, 16, 48);
  loss_tail known;
  losses.give({0}, known);
  EXPECT_EQ(known.samples(), 8 * loss_tail::steps);
  EXPECT_DOUBLE_EQ(known.sum(), 8 * (static_cast<double>(loss_tail::steps) + 4));
}

TEST(ToldLosses, TakeNothingOfAWorkerThatThereIsNot) {
  told_losses losses(1);
  losses.take({7}, 1, 8, 80);
  loss_tail known;
  losses.give({0}, known);
  EXPECT_EQ(known.samples(), 0U);
}

} // namespace
} // namespace mailgrad
