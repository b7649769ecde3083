#pragma once

#include <mailgrad/engine/wire/wire_format.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string_view>
#include <vector>

namespace mailgrad::testing {

/// One of each encoding, with small blocks so that a few numbers fill several.
inline constexpr std::string_view formats_to_test[] = {"float32",        "float16",        "bfloat16",
                                                       "int8:block=16",  "top-k:0.1",      "1-bit:block=16",
                                                       "int8:block=256", "1-bit:block=512"};

inline constexpr std::string_view lossy_formats[] = {"float16",   "bfloat16", "int8:block=16",
                                                     "top-k:0.1", "top-k:1",  "1-bit:block=16"};

/// Numbers of many magnitudes.
inline std::vector<float> drawn_numbers(std::size_t n, std::mt19937_64& rng) {
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> x(n);
  for (float& v : x) v = std::ldexp(normal(rng), static_cast<int>(rng() % 9) - 4);
  return x;
}

/// Whole numbers, so that sums of them are exact.
inline std::vector<float> drawn_whole_numbers(std::size_t n, std::mt19937_64& rng) {
  std::vector<float> x(n);
  for (float& v : x) v = static_cast<float>(static_cast<int>(rng() % 41) - 20);
  return x;
}

inline std::vector<std::uint32_t> bits_of(std::span<const float> x) {
  std::vector<std::uint32_t> all;
  all.reserve(x.size());
  for (const float v : x) all.push_back(std::bit_cast<std::uint32_t>(v));
  return all;
}

} // namespace mailgrad::testing
