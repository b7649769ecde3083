#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace mailgrad {

/// Appends the low `Bytes` bytes of a number, the lowest first.
template <std::size_t Bytes>
void append_number(std::string& to, std::uint64_t number) {
  for (std::size_t i = 0; i < Bytes; ++i) to += static_cast<char>(number >> (8 * i) & 0xff);
}

/// The number in the first `Bytes` bytes; `bytes` must have at least that many.
template <std::size_t Bytes>
std::uint64_t number_in(std::string_view bytes) {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < Bytes; ++i)
    number |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  return number;
}

} // namespace mailgrad
