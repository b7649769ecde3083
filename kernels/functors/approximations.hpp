#pragma once

#include <mailgrad/kernels/functors/host_device.hpp>

#include <cstdint>
#include <cstring>

/// exp, log, tanh and the normal distribution of float32 without branches, so that compilers vectorise a loop
/// over them. The same formula runs on host and device.
///
/// Each comment gives the largest error over all floats in range, in units in the last place (ulp) of the
/// correctly rounded result; tests/kernels/functors/approximations_test.cpp measures them. The C library's
/// functions are within 1 ulp, but cost a call for each element.
namespace mailgrad::approximate {

MAILGRAD_HOST_DEVICE inline std::uint32_t bits_of(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

MAILGRAD_HOST_DEVICE inline float from_bits(std::uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

/// a * b + c. A GPU rounds it once, whatever its compiler makes of other sums of products. On a processor
/// the compiler rounds it once where that is one instruction.
MAILGRAD_HOST_DEVICE inline float multiply_add(float a, float b, float c) {
#ifdef __CUDA_ARCH__
  return __fmaf_rn(a, b, c);
#else
  return a * b + c;
#endif
}

/// 2^n for -126 <= n <= 127.
MAILGRAD_HOST_DEVICE inline float power_of_two(std::int32_t n) {
  return from_bits(static_cast<std::uint32_t>(n + 127) << 23);
}

namespace detail {

/// For |r| <= ln 2 / 2.
MAILGRAD_HOST_DEVICE inline float exp_of_remainder(float r) {
  float p = 1.9875691500e-4F;
  p = multiply_add(p, r, 1.3981999507e-3F);
  p = multiply_add(p, r, 8.3334519073e-3F);
  p = multiply_add(p, r, 4.1665795894e-2F);
  p = multiply_add(p, r, 1.6666665459e-1F);
  p = multiply_add(p, r, 5.0000001201e-1F);
  return multiply_add(p, r * r, r) + 1.0F;
}

} // namespace detail

/// At most 1 ulp, 2 where the result is subnormal. It overflows to infinity and underflows to 0 as std::exp
/// does.
///
/// Source  Cephes, expf: exp(x) = 2^n exp(r), n = round(x / ln 2), |r| <= ln 2 / 2.
MAILGRAD_HOST_DEVICE inline float exp(float x) {
  x = x > 89.0F ? 89.0F : x; // a NaN passes both comparisons unharmed
  x = x < -104.0F ? -104.0F : x;
  constexpr float round = 12582912.0F; // 1.5 * 2^23: adding it leaves no bits for a fraction
  const float shifted = multiply_add(x, 1.44269504F, round);
  const float n = shifted - round;
  // ln 2 in two parts; the first has few bits, so its product with n is exact.
  float r = multiply_add(n, -0.693359375F, x);
  r = multiply_add(n, 2.12194440e-4F, r);
  const float p = detail::exp_of_remainder(r);
  const auto power = static_cast<std::int32_t>(bits_of(shifted) - bits_of(round));
  const std::int32_t half = power >> 1; // two factors, since 2^128 and 2^-149 are no normal floats
  return p * power_of_two(half) * power_of_two(power - half);
}

/// exp for numbers of at most 0, in fewer operations than exp(): at most 1 ulp, and 0 below -87, where exp(x)
/// is nearly subnormal.
///
/// Source  as exp().
MAILGRAD_HOST_DEVICE inline float exp_of_negative(float x) {
  constexpr float round = 12582912.0F;
  const float shifted = multiply_add(x, 1.44269504F, round);
  const float n = shifted - round;
  const float r = multiply_add(n, 2.12194440e-4F, multiply_add(n, -0.693359375F, x));
  const float y = detail::exp_of_remainder(r) *
                  power_of_two(static_cast<std::int32_t>(bits_of(shifted) - bits_of(round)));
  return x < -87.0F ? 0.0F : y; // a NaN stays NaN
}

/// At most 1 ulp; log(0) is -infinity and the logarithm of a negative number NaN.
///
/// Source  Cephes, logf: log(2^n m) = n ln 2 + log(m), sqrt(1/2) <= m < sqrt(2).
MAILGRAD_HOST_DEVICE inline float log(float x) {
  const float infinity = from_bits(0x7f800000);
  const bool subnormal = x < 1.17549435e-38F;
  const float scaled = subnormal ? x * 8388608.0F : x;
  constexpr std::uint32_t root_half = 0x3f3504f3;
  const std::int32_t exponent = static_cast<std::int32_t>(bits_of(scaled) - root_half) >> 23;
  const float m = from_bits(bits_of(scaled) - (static_cast<std::uint32_t>(exponent) << 23)) - 1.0F;
  const float n = static_cast<float>(exponent) - (subnormal ? 23.0F : 0.0F);
  const float square = m * m;
  float p = 7.0376836292e-2F;
  p = multiply_add(p, m, -1.1514610310e-1F);
  p = multiply_add(p, m, 1.1676998740e-1F);
  p = multiply_add(p, m, -1.2420140846e-1F);
  p = multiply_add(p, m, 1.4249322787e-1F);
  p = multiply_add(p, m, -1.6668057665e-1F);
  p = multiply_add(p, m, 2.0000714765e-1F);
  p = multiply_add(p, m, -2.4999993993e-1F);
  p = multiply_add(p, m, 3.3333331174e-1F);
  float y = multiply_add(-0.5F, square, multiply_add(n, -2.12194440e-4F, p * m * square));
  y = multiply_add(n, 0.693359375F, m + y);
  y = x == infinity ? infinity : y;
  y = x == 0.0F ? -infinity : y;
  return x >= 0.0F ? y : from_bits(0x7fc00000); // NaN for negative numbers and for NaN
}

/// At most 7 ulp; never beyond 1.
///
/// Source  the rational minimax approximation of Eigen 3.4, generic_fast_tanh_float. Where x is clamped, the
///         result is 1 in float32, or 4 ulp less where the compiler fuses products with sums.
MAILGRAD_HOST_DEVICE inline float tanh(float x) {
  x = x > 7.90531111F ? 7.90531111F : x;
  x = x < -7.90531111F ? -7.90531111F : x;
  const float square = x * x;
  float p = -2.76076847742355e-16F;
  p = multiply_add(p, square, 2.00018790482477e-13F);
  p = multiply_add(p, square, -8.60467152213735e-11F);
  p = multiply_add(p, square, 5.12229709037114e-08F);
  p = multiply_add(p, square, 1.48572235717979e-05F);
  p = multiply_add(p, square, 6.37261928875436e-04F);
  p = multiply_add(p, square, 4.89352455891786e-03F);
  float q = 1.19825839466702e-06F;
  q = multiply_add(q, square, 1.18534705686654e-04F);
  q = multiply_add(q, square, 2.26843463243900e-03F);
  q = multiply_add(q, square, 4.89352518554385e-03F);
  return x * p / q;
}

/// The standard normal distribution at a number x.
struct normal_parts {
  float share;   ///< the probability of a number below x, within 3e-7
  float density; ///< the density at x, within 1e-7
};

/// Source  Abramowitz & Stegun, "Handbook of Mathematical Functions", 7.1.26. Its exponential is also that of
///         the density.
MAILGRAD_HOST_DEVICE inline normal_parts normal_at(float x) {
  const float decay = exp_of_negative(-0.5F * x * x);
  const float distance = x < 0.0F ? -x : x;
  const float t = 1.0F / multiply_add(0.231641888F, distance, 1.0F); // 0.3275911 / sqrt(2)
  float tail = 0.5307027145F;                                        // the coefficients of erfc, halved
  tail = multiply_add(tail, t, -0.7265760135F);
  tail = multiply_add(tail, t, 0.7107068705F);
  tail = multiply_add(tail, t, -0.142248368F);
  tail = multiply_add(tail, t, 0.127414796F);
  tail = tail * t * decay;
  return {x < 0.0F ? tail : 1.0F - tail, 0.398942280F * decay};
}

} // namespace mailgrad::approximate
