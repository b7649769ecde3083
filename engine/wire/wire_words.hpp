#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace mailgrad {

static_assert(std::endian::native == std::endian::little, "messages hold numbers as this processor does");

// Numbers of four bytes at any place of a message, little-endian. The bytes must be there.

inline std::uint32_t whole_at(std::span<const std::byte> from, std::size_t at) {
  std::uint32_t number;
  std::memcpy(&number, &from[at], 4);
  return number;
}

inline float float_at(std::span<const std::byte> from, std::size_t at) {
  return std::bit_cast<float>(whole_at(from, at));
}

inline void put_whole(std::span<std::byte> to, std::size_t at, std::uint32_t number) {
  std::memcpy(&to[at], &number, 4);
}

inline void put_float(std::span<std::byte> to, std::size_t at, float number) {
  put_whole(to, at, std::bit_cast<std::uint32_t>(number));
}

} // namespace mailgrad
