#pragma once

#include <mailgrad/graph/operations/padding.hpp>
#include <mailgrad/graph/value.hpp>

#include <array>
#include <cstddef>
#include <source_location>

namespace mailgrad {

struct convolution_options {
  std::array<std::size_t, 2> stride{1, 1}; ///< rows, columns from one window to the next; at least 1
  padding pad = padding::same();
};

/// Two-dimensional convolution, as networks use the word: a cross-correlation, whose kernel is not mirrored.
///
/// Source  Dumoulin & Visin, "A guide to convolution arithmetic for deep learning", arXiv:1603.07285; its
///         gradients are sections 4.1-4.6.
/// Shapes  x: float32[batch, height, width, in]; w: float32[rows, columns, in, out]; result: float32[batch,
///         height', width', out] with height' = (height + padding - rows) / stride + 1, rounded down.
/// Errors  graph_error if ranks or channels differ, or a window is larger than the padded image.
value conv2d(const value& x, const value& w, const convolution_options& options = {},
             std::source_location where = std::source_location::current());

} // namespace mailgrad
