#include <mailgrad/engine/account/run_meter.hpp>

#include <gtest/gtest.h>

#include <chrono>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;

TEST(IntervalClock, CountsSteps) {
  interval_clock c({.steps = 10}, 100);
  EXPECT_FALSE(c.ended(9, 1h));
  EXPECT_TRUE(c.ended(10, 1h));
  EXPECT_FALSE(c.ended(19, 1h));
  EXPECT_TRUE(c.ended(45, 1h)) << "several at once";
  EXPECT_FALSE(c.ended(49, 1h)) << "count as one";
  EXPECT_TRUE(c.ended(50, 1h));
}

TEST(IntervalClock, CountsTimeFromTheStartOfTheRun) {
  interval_clock c({.span = 1s}, 100);
  EXPECT_FALSE(c.ended(1000, 999ms));
  EXPECT_TRUE(c.ended(1000, 1700ms));
  EXPECT_FALSE(c.ended(1000, 1900ms));
  EXPECT_TRUE(c.ended(1000, 2s)) << "late once, it is late no more";
}

TEST(IntervalClock, CountsEpochs) {
  interval_clock c({.epochs = 1}, 7);
  EXPECT_FALSE(c.ended(6, 0s));
  EXPECT_TRUE(c.ended(7, 0s));
  EXPECT_FALSE(c.ended(13, 0s));
  EXPECT_TRUE(c.ended(14, 0s));
}

TEST(IntervalClock, NeverEndsWithoutAnInterval) {
  interval_clock c({}, 0);
  EXPECT_FALSE(c.ended(1'000'000, 24h));
}

} // namespace
} // namespace mailgrad
