#include <mailgrad/engine/account/training_progress.hpp>

#include <gtest/gtest.h>

#include <vector>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;

notice_pace pace(const std::vector<interval>& wanted, std::size_t workers = 1) {
  return pace_for(wanted, 60, workers);
}

TEST(NoticePace, IsTenTimesASecondUnlessMoreIsWanted) {
  EXPECT_EQ(pace({}), notice_pace{});
  EXPECT_EQ(pace({{.span = 1s}, {}}), notice_pace{});
  EXPECT_FALSE(notice_pace{}.due(99ms, 1'000'000));
  EXPECT_TRUE(notice_pace{}.due(100ms, 1));
}

TEST(NoticePace, FollowsTheShortestInterval) {
  EXPECT_EQ(pace({{.span = 20ms}, {.steps = 500}, {.epochs = 2}}), (notice_pace{20ms, 120}));
  EXPECT_EQ(pace({{.steps = 50}, {.epochs = 1}}), (notice_pace{100ms, 50}));
}

/// The steps of an interval are those of all workers together.
TEST(NoticePace, SharesStepsAmongWorkers) {
  EXPECT_EQ(pace({{.epochs = 1}}, 4).steps, 15U);
  EXPECT_EQ(pace({{.steps = 3}}, 4).steps, 1U);
}

TEST(NoticePace, IsNeverMoreThanOnceAMillisecond) {
  EXPECT_EQ(pace({{.span = 1ns}}).span, 1ms);
  EXPECT_FALSE(pace({{.steps = 1}}).due(999us, 50));
  EXPECT_TRUE(pace({{.steps = 10}}).due(1ms, 10));
  EXPECT_FALSE(pace({{.steps = 10}}).due(50ms, 9));
}

} // namespace
} // namespace mailgrad
