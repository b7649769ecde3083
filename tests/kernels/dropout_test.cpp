#include <mailgrad/tests/support/without_cuda.hpp>

#include <mailgrad/kernels/elementwise.hpp>
#include <mailgrad/kernels/functors/philox.hpp>
#include <mailgrad/tensor/error.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace mailgrad {
namespace {

using floats = std::vector<float>;

floats dropped(const dropout_draw& draw, std::size_t size) {
  const floats x(size, 1);
  floats y(size, 9);
  dropout(host_stream{}, draw, x.data(), y.data(), size);
  return y;
}

// Known answers of the authors' Random123 library, file kat_vectors.
TEST(Philox, GivesTheAuthorsNumbers) {
  const auto zero = philox{0, 0}({0, 0, 0, 0});
  EXPECT_EQ(zero.x0, 0x6627e8d5U);
  EXPECT_EQ(zero.x1, 0xe169c58dU);
  EXPECT_EQ(zero.x2, 0xbc57ac4cU);
  EXPECT_EQ(zero.x3, 0x9b00dbd8U);
  const auto ones = philox{~0U, ~0U}({~0U, ~0U, ~0U, ~0U});
  EXPECT_EQ(ones.x0, 0x408f276dU);
  EXPECT_EQ(ones.x1, 0x41c83b0eU);
  EXPECT_EQ(ones.x2, 0xa20bc7c6U);
  EXPECT_EQ(ones.x3, 0x6d5451fdU);
  const auto pi = philox{0xa4093822U, 0x299f31d0U}({0x243f6a88U, 0x85a308d3U, 0x13198a2eU, 0x03707344U});
  EXPECT_EQ(pi.x0, 0xd16cfe09U);
  EXPECT_EQ(pi.x1, 0x94fdccebU);
  EXPECT_EQ(pi.x2, 0x5001e420U);
  EXPECT_EQ(pi.x3, 0x24126ea1U);
}

TEST(Dropout, ScalesWhatItKeeps) {
  for (const float v : dropped({0.75F, 1, 0}, 1000)) EXPECT_TRUE(v == 0 || v == 4) << v;
}

TEST(Dropout, DropsTheShareAskedFor) {
  constexpr std::size_t n = 100'000;
  for (const float rate : {0.1F, 0.5F, 0.9F}) {
    const auto zeros = static_cast<double>(std::ranges::count(dropped({rate, 5, 3}, n), 0.0F));
    const double p = static_cast<double>(rate);
    EXPECT_NEAR(zeros, p * n, 5 * std::sqrt(n * p * (1 - p))) << rate;
  }
}

TEST(Dropout, DrawsTheSameForTheSameSeedAndStep) {
  EXPECT_EQ(dropped({0.5F, 7, 11}, 321), dropped({0.5F, 7, 11}, 321));
}

TEST(Dropout, DrawsAnewForAnotherSeedOrStep) {
  const floats first = dropped({0.5F, 7, 11}, 321);
  EXPECT_NE(first, dropped({0.5F, 7, 12}, 321));
  EXPECT_NE(first, dropped({0.5F, 8, 11}, 321));
  EXPECT_NE(first, dropped({0.5F, 7, 11 + (1ULL << 32)}, 321));
}

TEST(Dropout, DoesNotDependOnHowManyFollow) {
  const floats all = dropped({0.5F, 7, 11}, 321);
  for (const std::size_t size : {0U, 1U, 31U, 32U, 33U, 100U})
    EXPECT_EQ(dropped({0.5F, 7, 11}, size), floats(all.begin(), all.begin() + static_cast<long>(size)));
}

TEST(Dropout, TakesTheNumbersOfPhiloxInAFixedOrder) {
  const floats y = dropped({0.5F, 7, 11}, 64);
  for (std::uint32_t counter = 0; counter < 16; ++counter) {
    const auto x = philox{7, 0}({counter, 0, 11, 0});
    const std::uint32_t numbers[] = {x.x0, x.x1, x.x2, x.x3};
    for (std::size_t k = 0; k < 4; ++k)
      EXPECT_EQ(y[counter / 8 * 32 + k * 8 + counter % 8] == 0, numbers[k] < 0x80000000U) << counter;
  }
}

TEST(Dropout, OfNothingKeepsEveryBit) {
  const floats x{0.1F, -3.7F, 1e-30F};
  floats y(3);
  dropout(host_stream{}, {0, 1, 1}, x.data(), y.data(), 3);
  EXPECT_EQ(y, x);
}

TEST(Dropout, WorksInPlace) {
  floats x(100, 1);
  dropout(host_stream{}, {0.5F, 7, 11}, x.data(), x.data(), x.size());
  EXPECT_EQ(x, dropped({0.5F, 7, 11}, 100));
}

TEST(Dropout, HasNoCudaVersion) {
  MAILGRAD_SKIP_WITH_CUDA();
  float v = 0;
  EXPECT_THROW(dropout(cuda_stream{}, {}, &v, &v, 1), device_error);
}

} // namespace
} // namespace mailgrad
