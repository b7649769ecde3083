#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace mailgrad {

/// What a GPU rounds the operands of a matrix product to. Sums, results, weights and gradients are float32
/// in any case.
enum class product_precision : std::uint8_t {
  float32,  ///< they stay as they are
  tf32,     ///< 8 bits of exponent, 10 of fraction, by the GPU itself
  bfloat16, ///< 8 bits of exponent, 7 of fraction, by a kernel before the product
};

/// "float32", "tf32", "bfloat16"
std::string_view name(product_precision p);

/// The names of all, in their order.
std::vector<std::string> product_precision_names();

/// Errors  std::invalid_argument in one line with the names there are.
product_precision parse_product_precision(std::string_view text);

// Numbers of fewer bits, as files of weights, messages and products of a GPU hold them. Each is exact as
// float32. There are no branches, so that compilers vectorise a loop over these functions.

/// A number of 16 bits as it lies in memory: the upper half of a float32.
struct bfloat16 {
  std::uint16_t bits;
};

/// bfloat16: the upper half of a float32.
constexpr float float_of_bfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16U);
}

/// IEEE 754 binary16: 5 bits of exponent, 10 of fraction.
inline float float_of_half(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16U;
  const std::uint32_t magnitude = bits & 0x7fffU;
  const std::uint32_t normal = (magnitude << 13U) + (112U << 23U);
  const std::uint32_t not_finite = (magnitude << 13U) + (224U << 23U);
  const float small =
      static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24F; // zero, or below 2^-14
  const std::uint32_t finite = magnitude < 0x400U ? std::bit_cast<std::uint32_t>(small) : normal;
  return std::bit_cast<float>(sign | (magnitude < 0x7c00U ? finite : not_finite));
}

/// The nearest bfloat16, of two equally near the one whose last bit is 0. A number that rounds to 2^128
/// becomes infinite. A NaN stays one and becomes quiet; its upper bits are kept.
constexpr std::uint16_t bfloat16_of_float(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
  const std::uint32_t rounded = bits + 0x7fffU + (bits >> 16U & 1U);
  return static_cast<std::uint16_t>((is_nan ? bits | 0x400000U : rounded) >> 16U);
}

/// The nearest number with 10 bits of fraction, of two equally near the one farther from 0, as a GPU rounds
/// to TF32. A NaN stays one.
constexpr float tf32_of_float(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
  return is_nan ? x : std::bit_cast<float>((bits + 0x1000U) & ~0x1fffU);
}

/// The nearest binary16, of two equally near the one whose last bit is 0. A magnitude from 65520 on becomes
/// infinite. A NaN stays one and becomes quiet; its upper bits are kept.
inline std::uint16_t half_of_float(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = bits >> 16U & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  const std::uint32_t normal = (magnitude + 0xfffU + (magnitude >> 13U & 1U) - (112U << 23U)) >> 13U;
  // The last bit of a float32 in [0.5, 1) is the smallest binary16, so the addition rounds to a multiple of
  // it.
  const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
  const std::uint32_t small = std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(0.5F);
  const std::uint32_t nan = 0x7e00U | (magnitude >> 13U & 0x3ffU);
  const std::uint32_t finite = magnitude < 0x38800000U ? small : normal;
  const std::uint32_t number = magnitude < 0x477ff000U ? finite : 0x7c00U;
  return static_cast<std::uint16_t>(sign | (magnitude > 0x7f800000U ? nan : number));
}

/// An array of floats, or one of numbers that are rounded to bfloat16, for kernels that take either on a
/// GPU.
using read_numbers = std::variant<const float*, const bfloat16*>;
using written_numbers = std::variant<float*, bfloat16*>;

/// The array, for a kernel of the host.
///
/// Errors  device_error that names the kernel, if it is one of bfloat16, of which the host computes nothing.
const float* floats_of(const read_numbers& x, std::string_view kernel);
float* floats_of(const written_numbers& x, std::string_view kernel);

} // namespace mailgrad
