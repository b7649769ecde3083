#include <mailgrad/optim/clip.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace mailgrad {
namespace {

TEST(SumOfSquares, IsExactWhereFloat64IsAtEverySize) {
  double expected = 0;
  std::vector<float> values;
  for (std::size_t n = 0; n < 70; ++n) {
    EXPECT_EQ(sum_of_squares(host_stream{}, values), expected) << n << " values";
    const auto x = static_cast<float>(n) - 20.5F;
    values.push_back(x);
    expected += static_cast<double>(x) * static_cast<double>(x);
  }
}

TEST(SumOfSquares, LosesNothingThatFloat32Would) {
  const std::vector<float> values(100'000, 0.1F);
  const double square = static_cast<double>(0.1F) * static_cast<double>(0.1F);
  EXPECT_NEAR(sum_of_squares(host_stream{}, values) / (100'000 * square), 1, 1e-12);
}

TEST(SumOfSquares, DoesNotOverflowWhereFloat32Would) {
  const std::vector<float> values(4, 1e30F);
  EXPECT_NEAR(sum_of_squares(host_stream{}, values), 4e60, 1e54);
}

TEST(SumOfSquares, IsWrittenWhereItIsAskedFor) {
  double sum = 0;
  sum_of_squares(host_stream{}, std::vector<float>{3, 4}, &sum);
  EXPECT_EQ(sum, 25);
}

TEST(ClipFactor, BringsALongGradientDownToTheMaximum) { EXPECT_FLOAT_EQ(clip_factor(10, 2.5), 0.25F); }

TEST(ClipFactor, LeavesAShortGradientAlone) {
  EXPECT_EQ(clip_factor(1, 2), 1.0F);
  EXPECT_EQ(clip_factor(0, 2), 1.0F);
}

TEST(ClipFactor, ClipsNothingWhenTheMaximumIsZero) { EXPECT_EQ(clip_factor(1e9, 0), 1.0F); }

TEST(ClipFactor, ShowsABrokenGradientForWhatItIs) {
  EXPECT_TRUE(std::isnan(clip_factor(std::numeric_limits<double>::quiet_NaN(), 1)));
  EXPECT_EQ(clip_factor(std::numeric_limits<double>::infinity(), 1), 0.0F);
}

} // namespace
} // namespace mailgrad
