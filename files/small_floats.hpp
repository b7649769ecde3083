#pragma once

#include <bit>
#include <cstdint>

namespace mailgrad {

// Numbers of 16 bits, as files of weights hold them. Each is exact as float32.

/// bfloat16: the upper half of a float32.
inline float float_of_bfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16U);
}

/// IEEE 754 binary16: 5 bits of exponent, 10 of fraction.
inline float float_of_half(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16U;
  const std::uint32_t exponent = bits >> 10U & 0x1fU;
  const std::uint32_t fraction = bits & 0x3ffU;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000U | fraction << 13U);
  if (exponent > 0) return std::bit_cast<float>(sign | (exponent + 112) << 23U | fraction << 13U);
  const float small = static_cast<float>(fraction) * 0x1p-24F; // zero, or a number below 2^-14
  return sign == 0 ? small : -small;
}

} // namespace mailgrad
