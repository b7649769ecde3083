#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace mailgrad {

/// How far a window may reach over the border of an image. What lies outside counts as zero in a convolution
/// and as absent in pooling.
struct padding {
  enum class rule : std::uint8_t { same, valid, given };

  rule how = rule::same;
  std::array<std::size_t, 2> before{}; ///< rows above, columns to the left; for `given`
  std::array<std::size_t, 2> after{};  ///< rows below, columns to the right; for `given`

  /// As many outputs as inputs / stride, rounded up; an odd row or column goes below or to the right.
  static constexpr padding same() { return {}; }
  /// None: every window lies inside the image.
  static constexpr padding valid() { return {rule::valid, {}, {}}; }
  /// As many rows above as below and columns left as right.
  static constexpr padding of(std::size_t rows, std::size_t columns) {
    return {rule::given, {rows, columns}, {rows, columns}};
  }
};

/// "same", "valid", or "2+2x1+1".
std::string to_string(const padding& p);

} // namespace mailgrad
