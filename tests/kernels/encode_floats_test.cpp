#include <mailgrad/kernels/encodings.hpp>

#include <mailgrad/tensor/small_floats.hpp>
#include <mailgrad/tests/kernels/host_stream.hpp>
#include <mailgrad/tests/support/refusal.hpp>
#include <mailgrad/tests/support/special_floats.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace mailgrad {
namespace {

using testing::host;
using testing::infinity;
using testing::nan;

using bytes = std::vector<std::byte>;
using floats = std::vector<float>;

struct format {
  void (*encode)(const stream&, std::span<const float>, std::span<float>, std::span<std::byte>);
  void (*decode)(const stream&, std::span<const std::byte>, std::span<float>);
  std::uint16_t (*of)(float);
  float (*value)(std::uint16_t);
  float largest;
  float half_step; ///< relative
};

const format formats[] = {
    {encode_float16, decode_float16, half_of_float, float_of_half, 65504.0F, 0x1p-11F},
    {encode_bfloat16, decode_bfloat16, bfloat16_of_float, float_of_bfloat16, 0x1.fep127F, 0x1p-8F},
};

floats drawn(std::size_t n, unsigned seed) {
  std::mt19937_64 rng(seed);
  std::normal_distribution<float> normal(0, 1);
  floats x(n);
  for (float& v : x) v = normal(rng) * std::exp2(8 * normal(rng));
  return x;
}

std::vector<std::uint32_t> bits(const floats& x) {
  std::vector<std::uint32_t> all;
  for (const float v : x) all.push_back(std::bit_cast<std::uint32_t>(v));
  return all;
}

TEST(EncodeFloats, DoesAtEverySizeWhatAPlainLoopDoes) {
  for (const format& f : formats)
    for (std::size_t n = 0; n < 100; ++n) {
      const floats x = drawn(n, 1);
      floats residual = drawn(n, 2);
      floats expected_rest;
      bytes expected(2 * n);
      for (std::size_t i = 0; i < n; ++i) {
        const float p = x[i] + residual[i];
        const std::uint16_t h = f.of(std::clamp(p, -f.largest, f.largest));
        std::memcpy(&expected[2 * i], &h, 2);
        expected_rest.push_back(p - f.value(h));
      }
      bytes encoded(2 * n);
      f.encode(host, x, residual, encoded);
      ASSERT_EQ(encoded, expected) << n;
      ASSERT_EQ(bits(residual), bits(expected_rest)) << n;
    }
}

TEST(EncodeFloats, DecodesToTheNearestNumber) {
  for (const format& f : formats) {
    floats x = drawn(1000, 3);
    for (float& v : x) v = std::clamp(v, -f.largest, f.largest);
    bytes encoded(2 * x.size());
    floats decoded(x.size());
    f.encode(host, x, {}, encoded);
    f.decode(host, encoded, decoded);
    for (std::size_t i = 0; i < x.size(); ++i)
      ASSERT_LE(std::abs(x[i] - decoded[i]), std::max(std::abs(x[i]) * f.half_step, 0x1p-25F)) << x[i];
  }
}

TEST(EncodeFloats, WhatWasSentAndWhatIsLeftAreExactlyTheSum) {
  for (const format& f : formats) {
    const floats x = drawn(1000, 4);
    floats rest(x.size()); // zeros: the sum of both is not rounded
    bytes encoded(2 * x.size());
    floats decoded(x.size());
    f.encode(host, x, rest, encoded);
    f.decode(host, encoded, decoded);
    for (std::size_t i = 0; i < x.size(); ++i)
      ASSERT_EQ(static_cast<double>(decoded[i]) + static_cast<double>(rest[i]), x[i]);
  }
}

TEST(EncodeFloats, KeepsTheRestOfWhatIsTooLarge) {
  const floats x{1e6F, -1e6F, 70000, 65519};
  floats rest{0, 0, -1000, 0};
  bytes encoded(8);
  floats decoded(4);
  encode_float16(host, x, rest, encoded);
  decode_float16(host, encoded, decoded);
  EXPECT_EQ(decoded, (floats{65504, -65504, 65504, 65504}));
  EXPECT_EQ(rest, (floats{1e6F - 65504, 65504 - 1e6F, 69000 - 65504, 15}));

  const floats large{std::numeric_limits<float>::max(), std::numeric_limits<float>::lowest()};
  floats left(2);
  bytes upper(4);
  floats read(2);
  encode_bfloat16(host, large, left, upper);
  decode_bfloat16(host, upper, read);
  EXPECT_EQ(read, (floats{0x1.fep127F, -0x1.fep127F}));
  EXPECT_EQ(left, (floats{large[0] - 0x1.fep127F, large[1] + 0x1.fep127F}));
}

TEST(EncodeFloats, SendsWhatIsNotFiniteAndKeepsItsResidual) {
  for (const format& f : formats) {
    const floats x{infinity, -infinity, nan, 1};
    floats rest{0.25F, 0.5F, 0.75F, 0};
    bytes encoded(8);
    floats decoded(4);
    f.encode(host, x, rest, encoded);
    f.decode(host, encoded, decoded);
    EXPECT_EQ(decoded[0], infinity);
    EXPECT_EQ(decoded[1], -infinity);
    EXPECT_TRUE(std::isnan(decoded[2]));
    EXPECT_EQ(rest, (floats{0.25F, 0.5F, 0.75F, 0}));
  }
}

TEST(EncodeFloats, TakesBytesAtAnyPlace) {
  const floats x = drawn(67, 5);
  for (const format& f : formats) {
    bytes straight(2 * x.size()), shifted(2 * x.size() + 1);
    f.encode(host, x, {}, straight);
    f.encode(host, x, {}, std::span(shifted).subspan(1));
    EXPECT_TRUE(std::ranges::equal(straight, std::span(shifted).subspan(1)));
    floats decoded(x.size()), from_shifted(x.size());
    f.decode(host, straight, decoded);
    f.decode(host, std::span<const std::byte>(shifted).subspan(1), from_shifted);
    EXPECT_EQ(decoded, from_shifted);
  }
}

TEST(EncodeFloats, RefusesOtherLengths) {
  const floats x(4);
  floats three(3), four(4);
  bytes seven(7), eight(8);
  testing::expect_refused({
      {"too few bytes", [&] { encode_float16(host, x, four, seven); }, "encode_float16: 7 against 8"},
      {"another residual", [&] { encode_bfloat16(host, x, three, eight); }, "encode_bfloat16: 4 against 3"},
      {"too few to read", [&] { decode_float16(host, seven, four); }, "decode_float16: 7 against 8"},
      {"too many to read", [&] { decode_bfloat16(host, eight, three); }, "decode_bfloat16: 8 against 6"},
      {"a GPU", [&] { encode_float16(cuda_stream{}, x, four, eight); }, "no CUDA version"},
  });
}

} // namespace
} // namespace mailgrad
