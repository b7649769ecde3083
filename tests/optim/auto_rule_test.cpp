#include <mailgrad/optim/policies/auto_rule.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace mailgrad {
namespace {

using ::testing::HasSubstr;

TEST(AutoRule, StaysInStepWhileThatCostsLittle) {
  auto_rule rule;
  EXPECT_FALSE(rule.judge({200, 2.0, 0, 0.05}, "sync"));
  EXPECT_FALSE(rule.judge({200, 9.0, 0, 0.1}, "sync"))
      << "a loss that rises in step is not for want of a barrier";
}

TEST(AutoRule, LeavesABarrierThatWorkersWaitAt) {
  auto_rule rule;
  const auto advice = rule.judge({200, 2.0, 0, 0.34}, "sync");
  ASSERT_TRUE(advice);
  EXPECT_EQ(advice->policy, "async");
  EXPECT_EQ(advice->why, "workers waited 34 % of the last 200 steps at the barrier, more than 10 %");
}

TEST(AutoRule, NamesAShareBelowOnePerCent) {
  auto_rule rule(parse_auto("auto:wait=0.002"));
  const auto advice = rule.judge({200, 2.0, 0, 0.004}, "sync");
  ASSERT_TRUE(advice);
  EXPECT_THAT(advice->why, HasSubstr("waited 0.4 % of the last 200 steps at the barrier, more than 0.2 %"));
}

TEST(AutoRule, StaysAsynchronousWhileTheLossFallsOrGradientsAreFresh) {
  auto_rule rule;
  EXPECT_FALSE(rule.judge({200, 2.0, 3, 0}, "async"));
  EXPECT_FALSE(rule.judge({200, 1.0, 3, 0}, "async"));
  EXPECT_FALSE(rule.judge({200, 1.15, 3, 0}, "async")) << "mini-batches differ";
  EXPECT_FALSE(rule.judge({200, 5.0, 0.2, 0}, "async")) << "it cannot be staleness";
}

TEST(AutoRule, ReturnsToTheBarrierWhenStaleGradientsDoHarm) {
  auto_rule rule;
  EXPECT_FALSE(rule.judge({200, 1.0, 3.25, 0}, "async"));
  const auto advice = rule.judge({200, 1.5, 3.25, 0}, "async");
  ASSERT_TRUE(advice);
  EXPECT_EQ(advice->policy, "sync");
  EXPECT_THAT(advice->why, HasSubstr("is 1.5000, 0.5000 above its best, at a mean staleness of 3.2"));
}

// A fifth above a tenth of a thousandth is chance, and says nothing where the run began at 2.3.
TEST(AutoRule, TakesNoRiseOfASmallLossForHarmUnlessItIsAHundredthOfTheFirst) {
  auto_rule rule;
  EXPECT_FALSE(rule.judge({200, 2.3, 3, 0}, "async"));
  EXPECT_FALSE(rule.judge({200, 0.0001, 3, 0}, "async"));
  EXPECT_FALSE(rule.judge({200, 0.0002, 3, 0}, "async"));
  EXPECT_FALSE(rule.judge({200, 0.0230, 3, 0}, "async"));
  EXPECT_TRUE(rule.judge({200, 0.0232, 3, 0}, "async"));
}

TEST(AutoRule, TakesNoNegativeLossForHarmUnlessItRises) {
  auto_rule rule;
  EXPECT_FALSE(rule.judge({200, -1.0, 3, 0}, "async"));
  EXPECT_FALSE(rule.judge({200, -1.0, 3, 0}, "async")) << "it stays where it is";
  EXPECT_FALSE(rule.judge({200, -2.0, 3, 0}, "async"));
  EXPECT_FALSE(rule.judge({200, -1.7, 3, 0}, "async"));
  EXPECT_TRUE(rule.judge({200, -1.5, 3, 0}, "async"));
}

TEST(AutoRule, BearsMoreWaitingAfterEachReturn) {
  auto_rule rule;
  rule.judge({200, 1.0, 3, 0}, "async");
  rule.judge({200, 2.0, 3, 0}, "async");
  EXPECT_FALSE(rule.judge({200, 1.0, 0, 0.15}, "sync"));
  EXPECT_TRUE(rule.judge({200, 1.0, 0, 0.25}, "sync"));
  for (int i = 0; i < 9; ++i) rule.judge({200, 2.0, 3, 0}, "async");
  EXPECT_TRUE(rule.judge({200, 1.0, 0, 0.9}, "sync")) << "some waiting is too much for ever";
}

TEST(AutoRule, FollowsItsSettings) {
  const auto_options o = parse_auto("auto:window=7,wait=0.5,harm=0.1");
  EXPECT_EQ(o.window, 7U);
  auto_rule rule(o);
  EXPECT_FALSE(rule.judge({200, 1.0, 0, 0.4}, "sync"));
  EXPECT_TRUE(rule.judge({200, 1.0, 0, 0.6}, "sync"));
  EXPECT_FALSE(rule.judge({200, 1.05, 3, 0}, "async"));
  EXPECT_TRUE(rule.judge({200, 1.15, 3, 0}, "async"));
}

TEST(AutoRule, BearsAtLeastTheWaitingThatItIsTold) {
  auto_rule rule(parse_auto("auto:wait=0.9"));
  rule.judge({200, 1.0, 3, 0}, "async");
  rule.judge({200, 2.0, 3, 0}, "async");
  EXPECT_FALSE(rule.judge({200, 1.0, 0, 0.85}, "sync"));
}

TEST(AutoRule, RefusesSettingsThatMakeNoSense) {
  EXPECT_THROW(parse_auto("auto:window=0"), std::invalid_argument);
  EXPECT_THROW(parse_auto("auto:wait=1"), std::invalid_argument);
  EXPECT_THROW(parse_auto("auto:wait=0"), std::invalid_argument) << "twice as long would be no longer";
  EXPECT_THROW(parse_auto("auto:harm=-1"), std::invalid_argument);
  EXPECT_THROW(parse_auto("auto:windows=5"), std::invalid_argument);
}

} // namespace
} // namespace mailgrad
