#include <mailgrad/optim/policies/auto_rule.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  EXPECT_THAT(advice->why, HasSubstr("is 1.5000, 50 % above its best, at a mean staleness of 3.2"));
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

} // namespace
} // namespace mailgrad
