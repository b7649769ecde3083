#pragma once

#include <mailgrad/graph/operations/padding.hpp>
#include <mailgrad/graph/value.hpp>

#include <array>
#include <cstddef>
#include <source_location>

namespace mailgrad {

struct pooling_options {
  std::array<std::size_t, 2> window{2, 2}; ///< rows, columns; at least 1
  std::array<std::size_t, 2> stride{2, 2}; ///< rows, columns from one window to the next; at least 1
  padding pad = padding::valid();
};

/// The largest value of each window and channel; padding is never chosen. The gradient goes only to that
/// value, or to the first of equal values in row-major order. A window with a NaN has the result NaN.
///
/// Shapes  x: float32[batch, height, width, channels]; result: float32[batch, height', width', channels],
///         extents as in conv2d.
/// Errors  graph_error if x has another shape, a window is larger than the padded image, or padding is as
///         large as the window.
value max_pool(const value& x, const pooling_options& options = {},
               std::source_location where = std::source_location::current());

/// The mean of each window and channel, over the values that lie inside the image.
///
/// Shapes  as max_pool.
/// Errors  as max_pool.
value average_pool(const value& x, const pooling_options& options = {},
                   std::source_location where = std::source_location::current());

} // namespace mailgrad
