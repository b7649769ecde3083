#pragma once

#include <mailgrad/kernels/cuda/implicit_product.hpp>
#include <mailgrad/kernels/cuda/indices.hpp>

#include <cstddef>
#include <cstdint>

/// The operands of a convolution's passes, as sources of an implicit product.
namespace mailgrad::cuda {

/// A coordinate so far outside that its sum with any other is outside, too.
inline constexpr std::int32_t far_outside = -(std::int32_t{1} << 30);

__device__ inline bool is_inside(std::int32_t at, std::uint32_t extent) {
  return static_cast<std::uint32_t>(at) < extent;
}

/// The values of the windows that slide over x. The padding has none.
struct window_values {
  /// A window.
  struct window {
    std::int64_t first; ///< offset in x of the window's first value, which may lie in the padding
    std::int32_t top, left;
  };
  /// A value of each window.
  struct value {
    std::uint32_t offset;
    std::int32_t row, column;
  };

  __device__ window window_at(std::uint32_t k) const {
    if (k >= n.windows) return {0, far_outside, far_outside};
    const std::uint32_t image = n.per_image.divide(k), row = n.per_row.divide(k);
    const auto top = static_cast<std::int32_t>(row * n.stride_rows.by()) - n.pad_top;
    const auto left = static_cast<std::int32_t>(k * n.stride_columns.by()) - n.pad_left;
    const std::int32_t pixel = top * static_cast<std::int32_t>(n.width) + left;
    return {std::int64_t{image} * n.image_values + pixel * static_cast<std::int32_t>(n.channels), top, left};
  }
  __device__ value value_at(std::uint32_t k) const {
    if (k >= n.values) return {0, far_outside, far_outside};
    const std::uint32_t position = n.by_channels.divide(k);
    std::uint32_t column = position;
    const std::uint32_t row = n.columns.divide(column);
    return {(row * n.width + column) * n.channels + k, static_cast<std::int32_t>(row),
            static_cast<std::int32_t>(column)};
  }
  __device__ const float* find(const window& w, const value& v) const {
    const bool inside = is_inside(w.top + v.row, n.height) && is_inside(w.left + v.column, n.width);
    return inside ? x + (w.first + v.offset) : nullptr;
  }

  window_numbers n;
  const float* x;
  bool packs;
};

/// The left operand of y: a line is a window.
struct lines_of_windows : window_values {
  static constexpr pack_axis axis = pack_axis::depth;
  using line = window;
  __device__ window line_at(std::uint32_t k) const { return window_at(k); }
  __device__ value place_at(std::uint32_t k) const { return value_at(k); }
};

/// The left operand of dw: a line is a value of the windows.
struct lines_of_values : window_values {
  static constexpr pack_axis axis = pack_axis::lines;
  using line = value;
  __device__ value line_at(std::uint32_t k) const { return value_at(k); }
  __device__ window place_at(std::uint32_t k) const { return window_at(k); }
  __device__ const float* find(const value& v, const window& w) const { return window_values::find(w, v); }
};

/// The right operand of y and of dw, which does lie in memory: float32[depth, lines].
struct matrix_columns {
  static constexpr pack_axis axis = pack_axis::lines;
  using line = std::uint32_t;
  __device__ std::uint32_t line_at(std::uint32_t column) const { return column; }
  __device__ std::uint32_t place_at(std::uint32_t k) const { return k; }
  __device__ const float* find(std::uint32_t column, std::uint32_t k) const {
    return column < lines && k < depth ? values + (std::size_t{k} * lines + column) : nullptr;
  }

  const float* values;
  std::uint32_t depth, lines;
  bool packs;
};

/// A position of a window and a channel of the result.
struct window_output {
  std::int32_t row, column;
  std::uint32_t channel;
};

__device__ inline window_output window_output_at(const window_numbers& n, std::uint32_t k) {
  const std::uint32_t position = n.by_outs.divide(k);
  std::uint32_t column = position;
  const std::uint32_t row = n.columns.divide(column);
  return {static_cast<std::int32_t>(row), static_cast<std::int32_t>(column), k};
}

/// The left operand of dx: a line is a pixel, a place is a position of a window and an output channel. It is
/// the gradient of the window that has the pixel at that position.
struct lines_of_pixels {
  static constexpr pack_axis axis = pack_axis::depth;
  struct line {
    std::size_t image; ///< offset in dy
    std::int32_t row, column;
  };
  __device__ line line_at(std::uint32_t k) const {
    if (k >= n.pixels) return {0, far_outside, far_outside};
    const std::uint32_t image = n.by_pixels.divide(k), row = n.by_width.divide(k);
    return {std::size_t{image} * n.result_values, static_cast<std::int32_t>(row) + n.pad_top,
            static_cast<std::int32_t>(k) + n.pad_left};
  }
  __device__ window_output place_at(std::uint32_t k) const {
    if (k >= depth) return {-far_outside, -far_outside, 0};
    return window_output_at(n, k);
  }
  __device__ const float* find(const line& pixel, const window_output& place) const {
    const std::int32_t down = pixel.row - place.row, across = pixel.column - place.column;
    if (down < 0 || across < 0) return nullptr;
    auto gap_down = static_cast<std::uint32_t>(down), gap_across = static_cast<std::uint32_t>(across);
    const std::uint32_t i = n.stride_rows.divide(gap_down), j = n.stride_columns.divide(gap_across);
    if (gap_down != 0 || gap_across != 0 || i >= n.out_height || j >= n.out_width) return nullptr;
    return dy + (pixel.image + (i * n.out_width + j) * n.out_channels + place.channel);
  }

  window_numbers n;
  const float* dy;
  std::uint32_t depth;
  bool packs;
};

/// The right operand of dx: a line is an input channel, a place is as that of lines_of_pixels.
struct columns_of_channels {
  static constexpr pack_axis axis = pack_axis::depth;
  using line = std::uint32_t;
  static constexpr std::uint32_t nowhere = ~std::uint32_t{0};

  __device__ std::uint32_t line_at(std::uint32_t channel) const { return channel; }
  __device__ std::uint32_t place_at(std::uint32_t k) const {
    if (k >= depth) return nowhere;
    const std::uint32_t position = n.by_outs.divide(k);
    return position * n.channels * n.out_channels + k;
  }
  __device__ const float* find(std::uint32_t channel, std::uint32_t place) const {
    if (channel >= n.channels || place == nowhere) return nullptr;
    return w + (place + channel * n.out_channels);
  }

  window_numbers n;
  const float* w;
  std::uint32_t depth;
  bool packs;
};

} // namespace mailgrad::cuda
