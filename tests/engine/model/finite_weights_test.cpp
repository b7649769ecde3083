#include <mailgrad/engine/plan/run_tester.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tests/engine/layouts.hpp>

#include <gtest/gtest.h>

#include <limits>

namespace mailgrad {
namespace {

TEST(FiniteWeights, NameTheVariableAndTheShardOfTheFirstThatIsNot) {
  const parameter_layout layout = testing::layout_of({{"a", {5}}, {"b", {2, 32}}}, 2);
  std::vector<float> weights(layout.size(), 1.0F);
  EXPECT_FALSE(format_not_finite(layout, weights));
  const placed_variable& b = layout.variables()[1];
  weights[b.offset + 63] = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(format_not_finite(layout, weights), "weight 63 of 'b' on shard 1 is -inf");
  weights[b.offset] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(format_not_finite(layout, weights), "weight 0 of 'b' on shard 0 is nan");
}

TEST(FiniteWeights, AreNotLookedForInTheGapsBetweenVariables) {
  const parameter_layout layout = testing::layout_of({{"a", {5}}, {"b", {3}}}, 1);
  std::vector<float> weights(layout.size(), 1.0F);
  weights[5] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(format_not_finite(layout, weights));
}

TEST(FiniteWeights, AreRefusedIfTheyAreNotAsManyAsTheLayoutHas) {
  const parameter_layout layout = testing::layout_of({{"a", {5}}}, 1);
  EXPECT_THROW(format_not_finite(layout, std::vector<float>(5)), shape_error);
}

} // namespace
} // namespace mailgrad
