#include <mailgrad/kernels/functors/approximations.hpp>

#include <mailgrad/tests/support/special_floats.hpp>

#include <cmath>
#include <gtest/gtest.h>

namespace mailgrad {
namespace {

using testing::infinity;
using testing::nan;

double ulps(float got, double expected) {
  const auto rounded = static_cast<float>(expected);
  if (got == rounded) return 0;
  const float next = std::nextafter(std::abs(rounded), infinity);
  const double unit = static_cast<double>(next) - static_cast<double>(std::abs(rounded));
  return std::abs(static_cast<double>(got) - expected) / unit;
}

/// The largest error over floats between `low` and `high`, about 20,000 of them in each factor of two.
template <class Approximate, class Exact>
double largest_error(float low, float high, Approximate approximate, Exact exact) {
  double largest = 0;
  constexpr std::uint32_t stride = 401;
  const auto walk = [&](float first, float last, float sign) {
    for (std::uint32_t bits = approximate::bits_of(first); bits <= approximate::bits_of(last);
         bits += stride) {
      const float x = sign * approximate::from_bits(bits);
      largest = std::max(largest, ulps(approximate(x), exact(static_cast<double>(x))));
    }
  };
  walk(std::max(low, 1e-6F), high, 1);
  if (low < 0) walk(1e-6F, -low, -1);
  return largest;
}

TEST(Approximations, StayWithinTheErrorsTheyState) {
  EXPECT_LE(largest_error(-87, 88.7F, approximate::exp, [](double x) { return std::exp(x); }), 1);
  EXPECT_LE(largest_error(1e-30F, 1e30F, approximate::log, [](double x) { return std::log(x); }), 1);
  EXPECT_LE(largest_error(-10, 10, approximate::tanh, [](double x) { return std::tanh(x); }), 7);
  const auto decay = [](float x) { return approximate::exp_of_negative(-x); };
  EXPECT_LE(largest_error(0, 87, decay, [](double x) { return std::exp(-x); }), 1);
}

TEST(Approximations, NormalDistributionStaysWithinItsErrors) {
  double share = 0, density = 0;
  for (float x = -6; x <= 6; x += 1.0F / 4096) {
    const approximate::normal_parts got = approximate::normal_at(x);
    const auto exact = static_cast<double>(x);
    share =
        std::max(share, std::abs(static_cast<double>(got.share) - std::erfc(-exact / std::sqrt(2.0)) / 2));
    density = std::max(density, std::abs(static_cast<double>(got.density) -
                                         std::exp(-exact * exact / 2) / std::sqrt(2 * M_PI)));
  }
  EXPECT_LE(share, 3e-7);
  EXPECT_LE(density, 1e-7);
}

TEST(Approximations, TakeTheEndsOfTheRange) {
  EXPECT_EQ(approximate::exp(-infinity), 0);
  EXPECT_EQ(approximate::exp(infinity), infinity);
  EXPECT_EQ(approximate::exp(0), 1);
  EXPECT_EQ(approximate::exp(89), infinity);
  EXPECT_GT(approximate::exp(-103), 0); // subnormal
  EXPECT_EQ(approximate::log(0), -infinity);
  EXPECT_EQ(approximate::log(1), 0);
  EXPECT_EQ(approximate::log(infinity), infinity);
  EXPECT_NEAR(approximate::log(1e-40F), std::log(1e-40F), 1e-5);
  for (const float x : {8.0F, infinity}) { // fused or not, which a compiler chooses
    EXPECT_LE(ulps(approximate::tanh(x), 1), 7);
    EXPECT_LE(approximate::tanh(x), 1);
    EXPECT_EQ(approximate::tanh(-x), -approximate::tanh(x));
  }
  EXPECT_EQ(approximate::exp_of_negative(-infinity), 0);
  EXPECT_EQ(approximate::exp_of_negative(-0.0F), 1);
  EXPECT_EQ(approximate::normal_at(infinity).share, 1);
  EXPECT_EQ(approximate::normal_at(-infinity).share, 0);
  EXPECT_EQ(approximate::normal_at(infinity).density, 0);
}

TEST(Approximations, LetNaNThrough) {
  EXPECT_TRUE(std::isnan(approximate::exp(nan)));
  EXPECT_TRUE(std::isnan(approximate::log(nan)));
  EXPECT_TRUE(std::isnan(approximate::log(-1)));
  EXPECT_TRUE(std::isnan(approximate::tanh(nan)));
  EXPECT_TRUE(std::isnan(approximate::exp_of_negative(nan)));
  EXPECT_TRUE(std::isnan(approximate::normal_at(nan).share));
  EXPECT_TRUE(std::isnan(approximate::normal_at(nan).density));
}

} // namespace
} // namespace mailgrad
