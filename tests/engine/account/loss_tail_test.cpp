#include <mailgrad/engine/account/actor_reports.hpp>

#include <gtest/gtest.h>

namespace mailgrad {
namespace {

TEST(LossTail, IsEmptyBeforeTheFirstStep) {
  const loss_tail t;
  EXPECT_EQ(t.samples(), 0U);
  EXPECT_EQ(t.sum(), 0);
}

TEST(LossTail, CountsEachStepByItsSamples) {
  loss_tail t;
  t.add(0.5F, 64);
  t.add(2, 16);
  EXPECT_EQ(t.samples(), 80U);
  EXPECT_DOUBLE_EQ(t.sum(), 64);
}

TEST(LossTail, KeepsTheLastStepsAlone) {
  loss_tail t;
  t.add(1000, 8);
  t.add(3, 2);
  for (std::size_t i = 1; i < loss_tail::steps; ++i) t.add(1, 4);
  EXPECT_EQ(t.samples(), 2 + 4 * (loss_tail::steps - 1)) << "the first step is gone";
  EXPECT_DOUBLE_EQ(t.sum(), 6 + 4 * static_cast<double>(loss_tail::steps - 1));
}

} // namespace
} // namespace mailgrad
