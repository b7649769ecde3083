#include <mailgrad/kernels/encodings.hpp>
#include <mailgrad/kernels/host/compensated.hpp>

#include <cmath>
#include <limits>

// This source is compiled with -ffp-contract=off: `p - scale * multiple` is p less what the receiver decodes,
// which rounds the product.

namespace mailgrad {
namespace {

constexpr float most = 127;

/// Adding it leaves no bits for a fraction, so the sum is rounded to a whole number, ties to even.
constexpr float whole = 12582912.0F; // 1.5 * 2^23

/// Where the scale is subnormal, its rounding may move the largest number by more than half a scale. So it is
/// rounded up then, and down where the largest multiple would be infinite.
float scale_of(float largest) {
  const float scale = largest / most;
  if (static_cast<double>(scale) * 127 < static_cast<double>(largest))
    return std::isinf(std::nextafter(scale, largest) * most) ? scale : std::nextafter(scale, largest);
  return std::isinf(scale * most) ? std::nextafter(scale, 0.0F) : scale;
}

template <class Residual>
std::uint32_t largest_magnitude(compensated<Residual> values, std::size_t n) {
  std::uint32_t largest = 0;
#pragma omp simd reduction(max : largest)
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t bits = magnitude_bits(values(i));
    largest = bits > largest ? bits : largest;
  }
  return largest;
}

template <class Residual>
void encode_loop(compensated<Residual> values, std::size_t n, float scale, std::int8_t* to) {
  const float divisor = scale > 0 ? scale : 1; // all numbers are 0 then
#pragma omp simd
  for (std::size_t i = 0; i < n; ++i) {
    const float p = values(i);
    const float multiple = p / divisor + whole;
    to[i] = static_cast<std::int8_t>(std::bit_cast<std::int32_t>(multiple));
    values.keep(i, p - scale * (multiple - whole));
  }
}

} // namespace

float int8_scale(const stream& s, std::span<const float> x, std::span<const float> residual) {
  const std::uint32_t bits = with_compensated(
      s, "int8_scale", x, residual, [&](auto values) { return largest_magnitude(values, x.size()); });
  if (bits >= bits_of_infinity) return std::numeric_limits<float>::quiet_NaN();
  return scale_of(std::bit_cast<float>(bits));
}

void encode_int8(const stream& s, std::span<const float> x, std::span<float> residual, float scale,
                 std::span<std::int8_t> to) {
  require_bytes("encode_int8", to.size(), x.size());
  with_compensated(s, "encode_int8", x, residual,
                   [&](auto values) { encode_loop(values, x.size(), scale, to.data()); });
}

void decode_int8(const stream& s, std::span<const std::int8_t> from, float scale, std::span<float> to) {
  require_host(s, "decode_int8");
  require_bytes("decode_int8", from.size(), to.size());
  const std::int8_t* multiples = from.data();
  float* values = to.data();
  const std::size_t n = to.size();
#pragma omp simd
  for (std::size_t i = 0; i < n; ++i) values[i] = scale * static_cast<float>(multiples[i]);
}

} // namespace mailgrad
