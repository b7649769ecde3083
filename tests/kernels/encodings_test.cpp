#include <mailgrad/kernels/encodings.hpp>
#include <mailgrad/tensor/small_floats.hpp>
#include <mailgrad/tests/support/refusal.hpp>
#include <mailgrad/tests/support/special_floats.hpp>

#include <bit>
#include <cstring>
#include <numeric>
#include <random>
#include <span>

namespace mailgrad {
namespace {

using testing::expect_refused, testing::infinity, testing::largest_float, testing::nan;

using bytes = std::vector<std::byte>;
using floats = std::vector<float>;
using multiples = std::vector<std::int8_t>;
using places = std::vector<std::uint32_t>;

constexpr stream host = host_stream{};
constexpr float least = std::numeric_limits<float>::denorm_min();
constexpr float not_finite[] = {infinity, -infinity, nan};

floats drawn(std::size_t n, unsigned seed, float mean = 0, float deviation = 1) {
  std::mt19937_64 rng(seed);
  std::normal_distribution<float> normal(mean, deviation);
  floats x(n);
  for (float& v : x) v = normal(rng);
  return x;
}
floats drawn_of_any_size(std::size_t n, unsigned seed) {
  std::mt19937_64 rng(seed);
  std::normal_distribution<float> normal(0, 1);
  floats x(n);
  for (float& v : x) v = normal(rng) * std::exp2(8 * normal(rng));
  return x;
}

floats sums_of(const floats& x, const floats& y) {
  floats sums(x.size());
  std::ranges::transform(x, y, sums.begin(), std::plus<>());
  return sums;
}

/// What was sent and what is left are exactly what was given.
void expect_nothing_lost(const floats& x, const floats& sent, const floats& rest) {
  for (std::size_t i = 0; i < x.size(); ++i)
    ASSERT_EQ(static_cast<double>(sent[i]) + static_cast<double>(rest[i]), x[i]);
}

struct format {
  void (*encode)(const stream&, std::span<const float>, std::span<float>, std::span<std::byte>);
  void (*decode)(const stream&, std::span<const std::byte>, std::span<float>);
  std::uint16_t (*of)(float);
  float (*value)(std::uint16_t);
  float largest;
  float half_step; ///< relative

  /// What arrives of `x` and the residual, in which the rest stays.
  floats sent(const floats& x, std::span<float> residual) const {
    bytes encoded(2 * x.size());
    floats decoded(x.size());
    encode(host, x, residual, encoded);
    decode(host, encoded, decoded);
    return decoded;
  }
};

const format formats[] = {
    {encode_float16, decode_float16, half_of_float, float_of_half, 65504.0F, 0x1p-11F},
    {encode_bfloat16, decode_bfloat16, bfloat16_of_float, float_of_bfloat16, 0x1.fep127F, 0x1p-8F},
};

std::vector<std::uint32_t> bits(const floats& x) {
  std::vector<std::uint32_t> all;
  for (const float v : x) all.push_back(std::bit_cast<std::uint32_t>(v));
  return all;
}

TEST(EncodeFloats, DoesAtEverySizeWhatAPlainLoopDoes) {
  for (const format& f : formats)
    for (std::size_t n = 0; n < 100; ++n) {
      const floats x = drawn_of_any_size(n, 1);
      floats residual = drawn_of_any_size(n, 2), expected_rest;
      bytes encoded(2 * n), expected(2 * n);
      for (std::size_t i = 0; i < n; ++i) {
        const float p = x[i] + residual[i];
        const std::uint16_t h = f.of(std::clamp(p, -f.largest, f.largest));
        std::memcpy(&expected[2 * i], &h, 2);
        expected_rest.push_back(p - f.value(h));
      }
      f.encode(host, x, residual, encoded);
      ASSERT_EQ(encoded, expected) << n;
      ASSERT_EQ(bits(residual), bits(expected_rest)) << n;
    }
}

TEST(EncodeFloats, DecodesToTheNearestNumber) {
  for (const format& f : formats) {
    floats x = drawn_of_any_size(1000, 3);
    for (float& v : x) v = std::clamp(v, -f.largest, f.largest);
    const floats decoded = f.sent(x, {});
    for (std::size_t i = 0; i < x.size(); ++i)
      ASSERT_LE(std::abs(x[i] - decoded[i]), std::max(std::abs(x[i]) * f.half_step, 0x1p-25F)) << x[i];
  }
}

TEST(EncodeFloats, WhatWasSentAndWhatIsLeftAreExactlyTheSum) {
  for (const format& f : formats) {
    const floats x = drawn_of_any_size(1000, 4);
    floats rest(x.size()); // zeros: the sum of both is not rounded
    const floats decoded = f.sent(x, rest);
    expect_nothing_lost(x, decoded, rest);
  }
}

TEST(EncodeFloats, KeepsTheRestOfWhatIsTooLarge) {
  floats rest{0, 0, -1000, 0};
  EXPECT_EQ(formats[0].sent({1e6F, -1e6F, 70000, 65519}, rest), (floats{65504, -65504, 65504, 65504}));
  EXPECT_EQ(rest, (floats{1e6F - 65504, 65504 - 1e6F, 69000 - 65504, 15}));

  floats left(2);
  EXPECT_EQ(formats[1].sent({largest_float, -largest_float}, left), (floats{0x1.fep127F, -0x1.fep127F}));
  EXPECT_EQ(left, (floats{largest_float - 0x1.fep127F, 0x1.fep127F - largest_float}));
}

TEST(EncodeFloats, SendsWhatIsNotFiniteAndKeepsItsResidual) {
  for (const format& f : formats) {
    floats rest{0.25F, 0.5F, 0.75F, 0};
    const floats decoded = f.sent({infinity, -infinity, nan, 1}, rest);
    EXPECT_EQ(decoded[0], infinity);
    EXPECT_EQ(decoded[1], -infinity);
    EXPECT_TRUE(std::isnan(decoded[2]));
    EXPECT_EQ(rest, (floats{0.25F, 0.5F, 0.75F, 0}));
  }
}

TEST(EncodeFloats, TakesBytesAtAnyPlace) {
  const floats x = drawn_of_any_size(67, 5);
  for (const format& f : formats) {
    bytes straight(2 * x.size()), shifted(2 * x.size() + 1);
    const auto behind_one = std::span(shifted).subspan(1);
    f.encode(host, x, {}, straight);
    f.encode(host, x, {}, behind_one);
    EXPECT_TRUE(std::ranges::equal(straight, behind_one));
    floats decoded(x.size());
    f.decode(host, behind_one, decoded);
    EXPECT_EQ(decoded, f.sent(x, {}));
  }
}

TEST(EncodeFloats, RefusesOtherLengths) {
  const floats x(4);
  floats three(3), four(4);
  bytes seven(7), eight(8);
  expect_refused("encode_float16: 7 against 8", [&] { encode_float16(host, x, four, seven); });
  expect_refused("encode_bfloat16: 4 against 3", [&] { encode_bfloat16(host, x, three, eight); });
  expect_refused("decode_float16: 7 against 8", [&] { decode_float16(host, seven, four); });
  expect_refused("decode_bfloat16: 8 against 6", [&] { decode_bfloat16(host, eight, three); });
  expect_refused("a GPU", "no CUDA version", [&] { encode_float16(cuda_stream{}, x, four, eight); });
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
    const floats x = drawn(n, 1, 0, 3);
    floats residual = drawn(n, 2, 0, 0.1F);
    const floats sums = sums_of(x, residual);
    float largest = 0;
    for (const float sum : sums) largest = std::max(largest, std::abs(sum));
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
  for (int exponent = -149; exponent < 128; ++exponent)
    for (const float factor : {1.0F, 1.1F, 1.4F, 1.9F}) {
      const float largest = std::ldexp(factor, exponent);
      SCOPED_TRACE(largest);
      floats x = drawn(300, static_cast<unsigned>(exponent + 200));
      for (float& v : x) v = std::clamp(v * (largest / 4), -largest, largest);
      x[17] = -largest;
      floats rest(x.size());
      const int8_block b = encoded_int8(x, rest);
      const double half = static_cast<double>(b.scale) / 2 * 1.000001;
      for (std::size_t i = 0; i < x.size(); ++i)
        ASSERT_LE(std::abs(static_cast<double>(x[i]) - static_cast<double>(b.decoded[i])), half);
      expect_nothing_lost(x, b.decoded, rest);
    }
}

TEST(EncodeInt8, RoundsTiesToEvenMultiples) {
  const int8_block b = encoded_int8({127, 0.5F, 1.5F, 2.5F, -0.5F, -1.5F, -2.5F, 126.5F}, {});
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
  for (const float bad : not_finite)
    for (std::size_t i = 0; i < 40; ++i) {
      floats x(40, 1);
      x[i] = bad;
      EXPECT_TRUE(std::isnan(int8_scale(host, x, {})));
    }
  const floats x{largest_float}, residual{largest_float};
  EXPECT_TRUE(std::isnan(int8_scale(host, x, residual))) << "the sum is infinite";
}

TEST(EncodeInt8, RefusesOtherLengths) {
  const floats x(4);
  floats three(3), four(4);
  multiples small(3), right(4);
  expect_refused("encode_int8: 3 against 4", [&] { encode_int8(host, x, four, 1, small); });
  expect_refused("encode_int8: 4 against 3", [&] { encode_int8(host, x, three, 1, right); });
  expect_refused("int8_scale: 4 against 3", [&] { int8_scale(host, x, three); });
  expect_refused("too few to read", "decode_int8: 3 against 4", [&] { decode_int8(host, small, 1, four); });
}

struct message {
  places where;
  floats values;
  floats decoded;
};

message encoded_largest(const floats& x, std::span<float> residual, std::size_t k) {
  const auto cut = cut_of_largest(host, x, residual, k);
  EXPECT_TRUE(cut);
  bytes where(4 * k), values(4 * k);
  encode_largest(host, x, residual, *cut, where, values);
  message m{places(k), floats(k), floats(x.size(), 7)};
  std::memcpy(m.where.data(), where.data(), where.size());
  std::memcpy(m.values.data(), values.data(), values.size());
  decode_largest(host, where, values, m.decoded);
  return m;
}

/// The places of the k largest, of equals the first, in ascending order.
places by_sorting(const floats& x, std::size_t k) {
  places all(x.size());
  std::iota(all.begin(), all.end(), 0U);
  std::ranges::stable_sort(all, std::greater<>(), [&](std::uint32_t i) { return std::abs(x[i]); });
  all.resize(k);
  std::ranges::sort(all);
  return all;
}

void expect_as_by_sorting(const floats& x, const floats& residual, std::size_t k) {
  const floats sums = sums_of(x, residual);
  floats rest = residual;
  const message m = encoded_largest(x, rest, k);
  ASSERT_EQ(m.where, by_sorting(sums, k)) << k << " of " << x.size();
  floats left = sums, decoded(x.size());
  for (std::size_t i = 0; i < k; ++i) {
    ASSERT_EQ(m.values[i], sums[m.where[i]]);
    decoded[m.where[i]] = sums[m.where[i]];
    left[m.where[i]] = 0;
  }
  ASSERT_EQ(m.decoded, decoded);
  ASSERT_EQ(rest, left);
}

TEST(EncodeLargest, FindsAtEverySizeWhatSortingFinds) {
  for (std::size_t n = 1; n < 140; ++n)
    for (const std::size_t k : {std::size_t{1}, (n + 1) / 2, n})
      expect_as_by_sorting(drawn(n, 1), drawn(n, 2), k);
}

/// The large ones lie where no sample looks, or only there.
TEST(EncodeLargest, FindsThemWhereverTheyLie) {
  const floats even = drawn(20'000, 3);
  floats hidden = drawn(20'000, 4), seen = drawn(20'000, 5);
  for (std::size_t i = 0; i < even.size(); ++i) (i / 64 % 32 == 0 ? hidden : seen)[i] *= 1e-3F;
  for (const floats& x : {even, hidden, seen})
    for (const std::size_t k : {1U, 20U, 200U, 2000U, 19'999U}) expect_as_by_sorting(x, floats(x.size()), k);
}

TEST(EncodeLargest, TakesTheFirstOfEquals) {
  std::mt19937_64 rng(2);
  for (std::size_t n = 1; n < 300; n += 13) {
    floats x(n);
    for (float& v : x)
      v = static_cast<float>(static_cast<int>(rng() % 5) - 2); // ties of both signs, and zeros
    for (std::size_t k = 1; k <= n; k += 3) expect_as_by_sorting(x, floats(n), k);
  }
}

TEST(EncodeLargest, TellsNeighboursApart) {
  floats x(200);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = (i % 2 == 0 ? 1.0F : -1.0F) *
           std::bit_cast<float>(0x3f800000U + static_cast<std::uint32_t>(i * 37 % 200));
  for (const std::size_t k : {1U, 17U, 100U, 199U}) expect_as_by_sorting(x, floats(x.size()), k);
}

TEST(EncodeLargest, FindsSubnormalsAndTheLargestFloat) {
  const floats x{least, -3 * least, 0, -largest_float, 2 * least};
  for (const std::size_t k : {1U, 2U, 3U, 4U, 5U}) expect_as_by_sorting(x, floats(x.size()), k);
}

TEST(EncodeLargest, FindsNothingAmongWhatIsNotFinite) {
  for (const float bad : not_finite)
    for (std::size_t i = 0; i < 130; ++i) {
      floats x(130, 1);
      x[i] = bad;
      EXPECT_FALSE(cut_of_largest(host, x, {}, 3));
    }
}

TEST(EncodeLargest, WritesNoMoreThanThereIsRoomForWhateverTheCut) {
  const floats x(100, 1);
  bytes where(12), values(12);
  encode_largest(host, x, {}, {0, 100}, where, values);
  floats decoded(100);
  decode_largest(host, where, values, decoded);
  EXPECT_EQ(std::ranges::count(decoded, 1.0F), 3);
}

TEST(EncodeLargest, RefusesOtherLengths) {
  const floats x(4);
  floats three(3), four(4);
  bytes four_bytes(4), six(6), eight(8), twenty(20);
  expect_refused("cut_of_largest: 0 against 4", [&] { static_cast<void>(cut_of_largest(host, x, four, 0)); });
  expect_refused("5 against 4", [&] { static_cast<void>(cut_of_largest(host, x, four, 5)); });
  expect_refused("4 against 3", [&] { static_cast<void>(cut_of_largest(host, x, three, 1)); });
  expect_refused("encode_largest: 6 against 4", [&] { encode_largest(host, x, four, {}, six, six); });
  expect_refused("encode_largest: 20 against 4", [&] { encode_largest(host, x, four, {}, twenty, twenty); });
  expect_refused("4 against 8", [&] { encode_largest(host, x, four, {}, eight, four_bytes); });
  expect_refused("fewer to read", "4 against 8", [&] { decode_largest(host, eight, four_bytes, four); });
}

struct sign_block {
  sign_means means;
  bytes signs;
  floats decoded;
};

sign_block encoded_signs(const floats& x, std::span<float> residual) {
  sign_block b{means_of_signs(host, x, residual), bytes((x.size() + 7) / 8), floats(x.size())};
  encode_signs(host, x, residual, b.means, b.signs);
  decode_signs(host, b.signs, b.means, b.decoded);
  return b;
}

TEST(EncodeSigns, DoesAtEverySizeWhatAPlainLoopDoes) {
  for (std::size_t n = 0; n < 200; ++n) {
    const floats x = drawn(n, 1, 0.2F);
    floats residual = drawn(n, 2, 0.2F);
    const floats sums = sums_of(x, residual);
    double negative = 0, other = 0;
    std::size_t negatives = 0;
    bytes signs((n + 7) / 8);
    for (std::size_t i = 0; i < n; ++i) {
      (sums[i] < 0 ? negative : other) += static_cast<double>(sums[i]);
      negatives += sums[i] < 0 ? 1 : 0;
      if (sums[i] >= 0) signs[i / 8] |= std::byte{1} << (i % 8);
    }
    const sign_block b = encoded_signs(x, residual);
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
  const floats x = drawn(1000, 3, 0.2F);
  floats rest(x.size());
  const sign_block b = encoded_signs(x, rest);
  const auto square = [](const floats& v) { return std::inner_product(v.begin(), v.end(), v.begin(), 0.0); };
  EXPECT_NEAR(square(rest), square(x) - square(b.decoded), 1e-5 * square(x));
}

TEST(EncodeSigns, SendExactlyWhatHasOneMagnitudeASign) {
  const floats x{2, -3, -3, 2, 2, -3, 2, 2, 2};
  floats rest(x.size());
  const sign_block b = encoded_signs(x, rest);
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
  for (const float bad : not_finite)
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
  expect_refused("too few bits", "encode_signs: 1 against 2", [&] { encode_signs(host, x, nine, {}, one); });
  expect_refused("encode_signs: 9 against 8", [&] { encode_signs(host, x, eight, {}, two); });
  expect_refused("means_of_signs: 9 against 8", [&] { means_of_signs(host, x, eight); });
  expect_refused("decode_signs: 2 against 1", [&] { decode_signs(host, two, {}, eight); });
}

} // namespace
} // namespace mailgrad
