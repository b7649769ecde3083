#pragma once

#include <mailgrad/engine/wire/wire_format.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace mailgrad {

/// What stands before encoded numbers: 12 bytes.
struct wire_header {
  static constexpr std::size_t bytes = 12;

  wire_encoding encoding{};
  std::uint32_t count = 0;   ///< numbers
  std::uint32_t setting = 0; ///< the block of int8 and one_bit, the numbers that top_k sends; otherwise 0
};

/// Where the parts of `count` encoded numbers lie in their bytes. The first part has the scales, means or
/// places, if there are any, and the second what stands for the numbers.
struct wire_layout {
  /// Errors  shape_error if `count` does not fit into 32 bits.
  wire_layout(const wire_format& f, std::size_t count);

  wire_header header;
  std::size_t first = 0;  ///< bytes
  std::size_t second = 0; ///< bytes

  std::size_t bytes() const noexcept { return wire_header::bytes + first + second; }
  template <class Byte>
  std::span<Byte> first_of(std::span<Byte> all) const {
    return all.subspan(wire_header::bytes, first);
  }
  template <class Byte>
  std::span<Byte> second_of(std::span<Byte> all) const {
    return all.subspan(wire_header::bytes + first, second);
  }
};

} // namespace mailgrad
