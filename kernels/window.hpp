#pragma once

#include <cstddef>

namespace mailgrad {

/// Windows that slide over a batch of images, channels last: float32[batch, height, width, channels].
///
/// Window (i, j) of an image starts at row i * stride_rows - pad_top and column j * stride_columns -
/// pad_left; what lies outside the image is padding.
struct window_grid {
  std::size_t batch = 0, height = 0, width = 0, channels = 0;
  std::size_t rows = 1, columns = 1; ///< of one window
  std::size_t stride_rows = 1, stride_columns = 1;
  std::size_t pad_top = 0, pad_left = 0, pad_bottom = 0, pad_right = 0;
  std::size_t out_height = 0, out_width = 0; ///< number of windows down and across

  std::size_t image_size() const noexcept { return height * width * channels; }
  std::size_t windows() const noexcept { return out_height * out_width; }
  /// The number of values in one window.
  std::size_t window_size() const noexcept { return rows * columns * channels; }
};

/// The positions of a window, along one axis, that lie inside the image: [first, last).
struct inside {
  std::size_t first, last;

  constexpr inside(std::size_t window, std::size_t stride, std::size_t pad, std::size_t length,
                   std::size_t extent) noexcept
      : first(window * stride < pad ? pad - window * stride : 0),
        last(window * stride + length > pad + extent ? clipped(window * stride, pad + extent) : length) {}

private:
  static constexpr std::size_t clipped(std::size_t start, std::size_t end) noexcept {
    return end > start ? end - start : 0;
  }
};

} // namespace mailgrad
