#include <mailgrad/tensor/small_floats.hpp>

#include <gtest/gtest.h>

#include <cmath>

namespace mailgrad {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float most = std::numeric_limits<float>::max();
constexpr float least = std::numeric_limits<float>::denorm_min();

/// The magnitude of a number with this many bits of fraction, by the formula of IEEE 754.
double value(std::uint32_t magnitude, int fraction_bits, int bias) {
  const int exponent = static_cast<int>(magnitude >> fraction_bits);
  const auto fraction = static_cast<double>(magnitude & ((1U << fraction_bits) - 1));
  const double one = exponent == 0 ? 0 : 1;
  return std::ldexp(one + std::ldexp(fraction, -fraction_bits), std::max(exponent, 1) - bias);
}

/// Whether every float is rounded right, seen at both ends of the range of each number: between those,
/// rounding is monotone. `infinite` is the magnitude of infinity.
void expect_rounds_to_nearest(std::uint16_t (*of)(float), float (*value_of)(std::uint16_t),
                              std::uint16_t infinite) {
  for (std::uint16_t a = 0; a + 1 < infinite; ++a) {
    const auto b = static_cast<std::uint16_t>(a + 1);
    const auto even = static_cast<std::uint16_t>(a % 2 == 0 ? a : b);
    const float middle = value_of(a) / 2 + value_of(b) / 2;
    ASSERT_EQ(of(value_of(a)), a);
    if (static_cast<double>(middle) * 2 ==
        static_cast<double>(value_of(a)) + static_cast<double>(value_of(b))) {
      ASSERT_EQ(of(middle), even) << "between " << value_of(a) << " and " << value_of(b);
      ASSERT_EQ(of(-middle), even | 0x8000);
      ASSERT_EQ(of(std::nextafter(middle, 0.0F)), a);
      ASSERT_EQ(of(std::nextafter(middle, infinity)), b);
    }
  }
}

TEST(SmallFloats, EveryHalfHasTheValueOfItsFormula) {
  for (std::uint32_t h = 0; h < 0x7c00; ++h) {
    ASSERT_EQ(float_of_half(static_cast<std::uint16_t>(h)), value(h, 10, 15)) << h;
    ASSERT_EQ(float_of_half(static_cast<std::uint16_t>(h | 0x8000)), -value(h, 10, 15)) << h;
  }
  EXPECT_TRUE(std::signbit(float_of_half(0x8000)));
  EXPECT_EQ(float_of_half(0x7c00), infinity);
  EXPECT_EQ(float_of_half(0xfc00), -infinity);
  for (std::uint32_t h = 0x7c01; h < 0x8000; ++h) {
    ASSERT_TRUE(std::isnan(float_of_half(static_cast<std::uint16_t>(h))));
    ASSERT_TRUE(std::isnan(float_of_half(static_cast<std::uint16_t>(h | 0x8000))));
  }
}

TEST(SmallFloats, EveryBfloat16HasTheValueOfItsFormula) {
  for (std::uint32_t b = 0; b < 0x7f80; ++b)
    ASSERT_EQ(float_of_bfloat16(static_cast<std::uint16_t>(b)), value(b, 7, 127)) << b;
  EXPECT_EQ(float_of_bfloat16(0xff80), -infinity);
}

TEST(SmallFloats, AreTheNearestOfAFloatAndOfTwoTheEvenOne) {
  expect_rounds_to_nearest(half_of_float, float_of_half, 0x7c00);
  expect_rounds_to_nearest(bfloat16_of_float, float_of_bfloat16, 0x7f80);
}

TEST(SmallFloats, OfTf32HaveTenBitsOfFraction) {
  EXPECT_EQ(tf32_of_float(1 + 0x1p-10F), 1 + 0x1p-10F);
  EXPECT_EQ(tf32_of_float(1 + 0x1p-11F), 1 + 0x1p-10F) << "of two the one farther from 0";
  EXPECT_EQ(tf32_of_float(-1 - 0x1p-11F), -1 - 0x1p-10F);
  EXPECT_EQ(tf32_of_float(std::nextafter(1 + 0x1p-11F, 0.0F)), 1);
  EXPECT_EQ(tf32_of_float(most), infinity);
  EXPECT_EQ(tf32_of_float(-infinity), -infinity);
  EXPECT_EQ(tf32_of_float(least), 0);
  EXPECT_TRUE(std::isnan(tf32_of_float(std::nanf("123"))));
}

TEST(SmallFloats, BecomeInfiniteWhereTheFormatEnds) {
  EXPECT_EQ(half_of_float(std::nextafter(65520.0F, 0.0F)), 0x7bff);
  EXPECT_EQ(half_of_float(65520), 0x7c00);
  EXPECT_EQ(half_of_float(most), 0x7c00);
  EXPECT_EQ(half_of_float(-infinity), 0xfc00);
  EXPECT_EQ(bfloat16_of_float(std::nextafter(0x1.ffp127F, 0.0F)), 0x7f7f);
  EXPECT_EQ(bfloat16_of_float(0x1.ffp127F), 0x7f80);
  EXPECT_EQ(bfloat16_of_float(-most), 0xff80);
}

TEST(SmallFloats, KeepSubnormalsAndTheSignOfZero) {
  EXPECT_EQ(half_of_float(-0.0F), 0x8000);
  EXPECT_EQ(half_of_float(least), 0);
  EXPECT_EQ(half_of_float(0x1p-25F), 0); // half of the smallest: a tie
  EXPECT_EQ(half_of_float(std::nextafter(0x1p-25F, 1.0F)), 1);
  EXPECT_EQ(half_of_float(0x1p-24F), 1);
  EXPECT_EQ(half_of_float(0x1.ff8p-15F), 0x3ff); // the largest subnormal one
  EXPECT_EQ(half_of_float(0x1p-14F), 0x400);
  EXPECT_EQ(bfloat16_of_float(-0.0F), 0x8000);
  EXPECT_EQ(bfloat16_of_float(least), 0);
  EXPECT_EQ(bfloat16_of_float(0x1p-133F), 1);
}

TEST(SmallFloats, KeepThatANumberIsNone) {
  for (const std::uint32_t nan : {0x7f800001U, 0x7fc00000U, 0x7fffffffU, 0xff800001U, 0xffffffffU}) {
    const std::uint16_t half = half_of_float(std::bit_cast<float>(nan));
    const std::uint16_t upper = bfloat16_of_float(std::bit_cast<float>(nan));
    EXPECT_TRUE(std::isnan(float_of_half(half)));
    EXPECT_TRUE(std::isnan(float_of_bfloat16(upper)));
    EXPECT_EQ(half >> 15, nan >> 31);
    EXPECT_EQ(upper >> 15, nan >> 31);
  }
}

} // namespace
} // namespace mailgrad
