#include "../../support/gpu_test.hpp"

#include <mailgrad/kernels/elementwise.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace mailgrad {
namespace {

/// The nearest bfloat16 of a number, by the rounding of the processor's double precision: to even.
float nearest(float x) {
  if (std::isnan(x) || std::isinf(x)) return x;
  int exponent = 0;
  std::frexp(x, &exponent);
  const double last_bit = std::ldexp(1.0, std::max(exponent, -125) - 8);
  const double rounded = std::nearbyint(static_cast<double>(x) / last_bit) * last_bit;
  if (std::abs(rounded) >= 0x1p128) return std::copysign(std::numeric_limits<float>::infinity(), x);
  return std::copysign(static_cast<float>(rounded), x);
}

std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }

class GpuRounding : public testing::gpu_test {
protected:
  testing::gpu_array<std::uint16_t> rounded(const std::vector<float>& x, std::size_t from = 0,
                                            std::size_t to = 0) {
    const auto on_x = array(x);
    auto y = unwritten<std::uint16_t>(x.size() - from + to);
    round_floats(gpu(), on_x.span().subspan(from), reinterpret_cast<bfloat16*>(y.data()) + to);
    queue().finish(); // before x goes
    return y;
  }
};

TEST_F(GpuRounding, GivesEveryBfloat16ItsValueAndBack) {
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  const auto x = array(all);
  const auto wide = unwritten<float>(all.size());
  widen_floats(gpu(), {reinterpret_cast<const bfloat16*>(x.data()), all.size()}, wide.data());
  const std::vector<float> values = wide.read();
  for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(bits_of(values[i]), i << 16U);
  const auto back = rounded(values).read();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool is_nan = std::isnan(values[i]);
    ASSERT_EQ(back[i], is_nan ? all[i] | 0x40U : all[i]); // a NaN becomes quiet
  }
}

/// Beside each bfloat16: the floats next to it, next to the middle between it and the next, and the middle.
TEST_F(GpuRounding, TakesTheNearestAndOfTwoTheEvenOne) {
  std::vector<float> x;
  for (std::uint32_t upper = 0; upper < 65536; ++upper)
    for (const std::uint32_t lower : {0U, 1U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU})
      x.push_back(std::bit_cast<float>(upper << 16U | lower));
  const auto found = rounded(x).read();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float y = float_of_bfloat16(found[i]);
    if (std::isnan(x[i]))
      ASSERT_TRUE(std::isnan(y) && std::signbit(y) == std::signbit(x[i])) << std::hex << bits_of(x[i]);
    else
      ASSERT_EQ(bits_of(y), bits_of(nearest(x[i]))) << std::hex << bits_of(x[i]);
  }
}

TEST_F(GpuRounding, TakesArraysOfAnyLengthAtAnyNumber) {
  for (const std::size_t n : {0U, 1U, 7U, 8U, 9U, 2047U, 4103U})
    for (const std::size_t from : {0U, 1U})
      for (const std::size_t to : {0U, 1U}) {
        std::vector<float> x(n + from);
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
        const auto y = rounded(x, from, to);
        const auto wide = unwritten<float>(n + from);
        widen_floats(gpu(), {reinterpret_cast<const bfloat16*>(y.data()) + to, n}, wide.data() + from);
        const auto bits = y.read();
        const auto values = wide.read();
        for (std::size_t i = 0; i < n; ++i) {
          ASSERT_EQ(bits[i + to], bfloat16_of_float(x[i + from])) << n << ' ' << from << ' ' << to;
          ASSERT_EQ(values[i + from], nearest(x[i + from])) << n << ' ' << from << ' ' << to;
        }
        if (to > 0) {
          EXPECT_EQ(bits[0], 0) << "written before its beginning";
        }
      }
}

/// The host's have the same bits.
TEST_F(GpuRounding, GivesWhatTheHostGives) {
  std::vector<float> x(70000);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = std::bit_cast<float>(static_cast<std::uint32_t>(i) * 61681);
  std::vector<bfloat16> here(x.size());
  round_floats(host_stream{}, x, here.data());
  std::vector<float> wide(x.size());
  widen_floats(host_stream{}, here, wide.data());
  const auto there = rounded(x).read();
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(there[i], here[i].bits) << i;
    ASSERT_EQ(bits_of(wide[i]), std::uint32_t{here[i].bits} << 16U) << i;
  }
}

} // namespace
} // namespace mailgrad
