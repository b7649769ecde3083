#include <mailgrad/kernels/encodings.hpp>

#include <mailgrad/tests/kernels/host_stream.hpp>
#include <mailgrad/tests/support/refusal.hpp>
#include <mailgrad/tests/support/special_floats.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace mailgrad {
namespace {

using testing::host;
using testing::infinity;
using testing::largest_float;

using floats = std::vector<float>;
using multiples = std::vector<std::int8_t>;

constexpr float least = std::numeric_limits<float>::denorm_min();

floats drawn(std::size_t n, float size, unsigned seed) {
  std::mt19937_64 rng(seed);
  std::normal_distribution<float> normal(0, 1);
  floats x(n);
  for (float& v : x) v = normal(rng) * size;
  return x;
}

struct int8_block {
  float scale;
  multiples sent;
  floats decoded;
};

int8_block encoded_int8(const floats& x, std::span<float> residual) {
  int8_block b{int8_scale(host, x, residual), multiples(x.size()), floats(x.size())};
  encode_int8(host, x, residual, b.scale, b.sent);
  decode_int8(host, b.sent, b.scale, b.decoded);
  return b;
}

TEST(EncodeInt8, DoesAtEverySizeWhatAPlainLoopDoes) {
  for (std::size_t n = 1; n < 100; ++n) {
    const floats x = drawn(n, 3, 1);
    floats residual = drawn(n, 0.1F, 2);
    floats sums(n);
    float largest = 0;
    for (std::size_t i = 0; i < n; ++i) {
      sums[i] = x[i] + residual[i];
      largest = std::max(largest, std::abs(sums[i]));
    }
    const int8_block b = encoded_int8(x, residual);
    ASSERT_NEAR(b.scale, largest / 127, b.scale * 1e-6F);
    for (std::size_t i = 0; i < n; ++i) {
      const double multiple = std::nearbyint(static_cast<double>(sums[i]) / static_cast<double>(b.scale));
      ASSERT_EQ(b.sent[i], static_cast<int>(multiple)) << n;
      const float decoded = b.scale * static_cast<float>(b.sent[i]);
      ASSERT_EQ(b.decoded[i], decoded);
      ASSERT_EQ(residual[i], sums[i] - decoded);
    }
  }
}

TEST(EncodeInt8, IsOffByAtMostHalfAScaleAtEverySize) {
  for (int exponent = -149; exponent < 128; ++exponent) {
    for (const float factor : {1.0F, 1.1F, 1.4F, 1.9F}) {
      const float largest = std::ldexp(factor, exponent);
      floats x = drawn(300, largest / 4, static_cast<unsigned>(exponent + 200));
      for (float& v : x) v = std::clamp(v, -largest, largest);
      x[17] = -largest;
      floats rest(x.size());
      const int8_block b = encoded_int8(x, rest);
      const double half = static_cast<double>(b.scale) / 2 * 1.000001;
      for (std::size_t i = 0; i < x.size(); ++i) {
        ASSERT_LE(std::abs(static_cast<double>(x[i]) - static_cast<double>(b.decoded[i])), half) << largest;
        ASSERT_EQ(static_cast<double>(b.decoded[i]) + static_cast<double>(rest[i]), x[i]) << largest;
      }
    }
  }
}

TEST(EncodeInt8, RoundsTiesToEvenMultiples) {
  const floats x{127, 0.5F, 1.5F, 2.5F, -0.5F, -1.5F, -2.5F, 126.5F};
  const int8_block b = encoded_int8(x, {});
  EXPECT_EQ(b.scale, 1);
  EXPECT_EQ(b.sent, (multiples{127, 0, 2, 2, 0, -2, -2, 126}));
}

TEST(EncodeInt8, SendsZerosAsZeros) {
  floats rest(20);
  const int8_block b = encoded_int8(floats(20), rest);
  EXPECT_EQ(b.scale, 0);
  EXPECT_EQ(b.decoded, floats(20));
  EXPECT_EQ(rest, floats(20));
}

TEST(EncodeInt8, StaysFiniteAtBothEndsOfFloat32) {
  const int8_block large = encoded_int8({largest_float, -largest_float, 0}, {});
  EXPECT_EQ(large.sent, (multiples{127, -127, 0}));
  EXPECT_TRUE(std::isfinite(large.decoded[0]));
  EXPECT_TRUE(std::isfinite(large.decoded[1]));
  floats rest(2);
  const int8_block small = encoded_int8({190 * least, -least}, rest);
  EXPECT_EQ(small.scale, 2 * least);
  EXPECT_EQ(small.sent, (multiples{95, 0}));
  EXPECT_EQ(rest, (floats{0, -least}));
}

TEST(EncodeInt8, HasNoScaleForWhatIsNotFinite) {
  for (const float bad : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()})
    for (std::size_t i = 0; i < 40; ++i) {
      floats x(40, 1);
      x[i] = bad;
      EXPECT_TRUE(std::isnan(int8_scale(host, x, {})));
    }
  const floats x{largest_float};
  const floats residual{largest_float};
  EXPECT_TRUE(std::isnan(int8_scale(host, x, residual))) << "the sum is infinite";
}

TEST(EncodeInt8, RefusesOtherLengths) {
  const floats x(4);
  floats three(3), four(4);
  multiples small(3), right(4);
  testing::expect_refused({
      {"too few multiples", [&] { encode_int8(host, x, four, 1, small); }, "encode_int8: 3 against 4"},
      {"another residual", [&] { encode_int8(host, x, three, 1, right); }, "encode_int8: 4 against 3"},
      {"a scale of another residual", [&] { int8_scale(host, x, three); }, "int8_scale: 4 against 3"},
      {"too few to read", [&] { decode_int8(host, small, 1, four); }, "decode_int8: 3 against 4"},
  });
}

} // namespace
} // namespace mailgrad
