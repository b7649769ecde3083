#include <mailgrad/kernels/encodings.hpp>

#include <mailgrad/tests/kernels/host_stream.hpp>
#include <mailgrad/tests/support/refusal.hpp>
#include <mailgrad/tests/support/special_floats.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace mailgrad {
namespace {

using testing::host;
using testing::largest_float;

using bytes = std::vector<std::byte>;
using floats = std::vector<float>;

floats drawn_signs(std::size_t n, unsigned seed) {
  std::mt19937_64 rng(seed);
  std::normal_distribution<float> normal(0.2F, 1);
  floats x(n);
  for (float& v : x) v = normal(rng);
  return x;
}

struct sign_block {
  sign_means means;
  bytes signs;
  floats decoded;
};

sign_block encoded(const floats& x, std::span<float> residual) {
  sign_block b{means_of_signs(host, x, residual), bytes((x.size() + 7) / 8), floats(x.size())};
  encode_signs(host, x, residual, b.means, b.signs);
  decode_signs(host, b.signs, b.means, b.decoded);
  return b;
}

TEST(EncodeSigns, DoesAtEverySizeWhatAPlainLoopDoes) {
  for (std::size_t n = 0; n < 200; ++n) {
    const floats x = drawn_signs(n, 1);
    floats residual = drawn_signs(n, 2);
    floats sums(n);
    double negative = 0, other = 0;
    std::size_t negatives = 0;
    bytes signs((n + 7) / 8);
    for (std::size_t i = 0; i < n; ++i) {
      sums[i] = x[i] + residual[i];
      (sums[i] < 0 ? negative : other) += static_cast<double>(sums[i]);
      negatives += sums[i] < 0 ? 1 : 0;
      if (sums[i] >= 0) signs[i / 8] |= std::byte{1} << (i % 8);
    }
    const sign_block b = encoded(x, residual);
    ASSERT_EQ(b.signs, signs) << n;
    ASSERT_NEAR(b.means.negative, negatives == 0 ? 0 : negative / static_cast<double>(negatives), 1e-6);
    ASSERT_NEAR(b.means.other, negatives == n ? 0 : other / static_cast<double>(n - negatives), 1e-6);
    for (std::size_t i = 0; i < n; ++i) {
      ASSERT_EQ(b.decoded[i], sums[i] < 0 ? b.means.negative : b.means.other);
      ASSERT_EQ(residual[i], sums[i] - b.decoded[i]);
    }
  }
}

/// The means are what leaves the least: |x - Q(x)|^2 = |x|^2 - n- m-^2 - n+ m+^2.
TEST(EncodeSigns, LeaveWhatTheIdentityOfMeansSays) {
  const floats x = drawn_signs(1000, 3);
  floats rest(x.size());
  const sign_block b = encoded(x, rest);
  double of_x = 0, of_rest = 0, sent = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    of_x += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    of_rest += static_cast<double>(rest[i]) * static_cast<double>(rest[i]);
    sent += static_cast<double>(b.decoded[i]) * static_cast<double>(b.decoded[i]);
  }
  EXPECT_NEAR(of_rest, of_x - sent, 1e-5 * of_x);
}

TEST(EncodeSigns, SendExactlyWhatHasOneMagnitudeASign) {
  const floats x{2, -3, -3, 2, 2, -3, 2, 2, 2};
  floats rest(x.size());
  const sign_block b = encoded(x, rest);
  EXPECT_EQ(b.means, (sign_means{-3, 2}));
  EXPECT_EQ(b.decoded, x);
  EXPECT_EQ(rest, floats(x.size()));
}

TEST(EncodeSigns, HaveAMeanOfZeroWhereThereIsNone) {
  EXPECT_EQ(means_of_signs(host, {}, {}), (sign_means{0, 0}));
  EXPECT_EQ(means_of_signs(host, floats{0, -0.0F}, {}), (sign_means{0, 0}));
  EXPECT_EQ(means_of_signs(host, floats(20, -1), {}), (sign_means{-1, 0}));
  EXPECT_EQ(means_of_signs(host, floats(20, 1), {}), (sign_means{0, 1}));
}

TEST(EncodeSigns, HaveFiniteMeansOfFiniteNumbersOnly) {
  EXPECT_EQ(means_of_signs(host, floats(40, largest_float), {}), (sign_means{0, largest_float}));
  for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()})
    for (std::size_t i = 0; i < 40; ++i) {
      floats x(40, largest_float);
      x[i] = bad;
      const sign_means m = means_of_signs(host, x, {});
      EXPECT_FALSE(std::isfinite(m.negative) && std::isfinite(m.other));
    }
}

TEST(EncodeSigns, RefuseOtherLengths) {
  const floats x(9);
  floats eight(8), nine(9);
  bytes one(1), two(2);
  testing::expect_refused({
      {"too few bits", [&] { encode_signs(host, x, nine, {}, one); }, "encode_signs: 1 against 2"},
      {"another residual", [&] { encode_signs(host, x, eight, {}, two); }, "encode_signs: 9 against 8"},
      {"means of another residual", [&] { means_of_signs(host, x, eight); }, "means_of_signs: 9 against 8"},
      {"too many to read", [&] { decode_signs(host, two, {}, eight); }, "decode_signs: 2 against 1"},
  });
}

} // namespace
} // namespace mailgrad
