#pragma once

#include <mailgrad/files/archive.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace mailgrad {

/// How far a window may reach over the border of an image. Values outside are zero in a convolution, and
/// pooling ignores them.
struct padding {
  enum class rule : std::uint8_t { same, valid, given };

  rule how = rule::same;
  std::array<std::size_t, 2> before{}; ///< rows above, columns to the left; for `given`
  std::array<std::size_t, 2> after{};  ///< rows below, columns to the right; for `given`

  /// As many windows as pixels / stride, rounded up. An odd row or column of padding goes below or to the
  /// right.
  static constexpr padding same() { return {}; }
  /// No padding: every window lies inside the image.
  static constexpr padding valid() { return {rule::valid, {}, {}}; }
  /// So many rows above and below, and so many columns to the left and to the right.
  static constexpr padding of(std::size_t rows, std::size_t columns) {
    return {rule::given, {rows, columns}, {rows, columns}};
  }

  void keep(archive& a) {
    a.choice("how", how, rule::given);
    a.field("before", before);
    a.field("after", after);
  }
};

/// "padding same", "padding valid", or "padding 2+2 1+1": above + below, left + right.
std::string to_string(const padding& p);

} // namespace mailgrad
