#pragma once

#include <mailgrad/kernels/host/vector.hpp>

#include <algorithm>
#include <cstddef>

namespace mailgrad {

namespace detail {

inline void transpose_block(const float* from, std::size_t from_stride, float* to, std::size_t to_stride) {
  simd::vector rows[simd::width];
  for (std::size_t i = 0; i < simd::width; ++i) rows[i] = simd::load(from + i * from_stride);
  simd::transpose(rows);
  for (std::size_t i = 0; i < simd::width; ++i) simd::store(to + i * to_stride, rows[i]);
}

} // namespace detail

/// to[c * to_stride + r] = from[r * from_stride + c] for all r < rows, c < columns.
///
/// Squares that would reach over an edge are moved back from it: some elements are copied twice.
inline void transpose(const float* from, std::size_t from_stride, float* to, std::size_t to_stride,
                      std::size_t rows, std::size_t columns) {
  constexpr std::size_t side = simd::width;
  if (rows < side || columns < side) {
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < columns; ++c) to[c * to_stride + r] = from[r * from_stride + c];
    return;
  }
  for (std::size_t r = 0; r < rows; r += side)
    for (std::size_t c = 0; c < columns; c += side) {
      const std::size_t row = std::min(r, rows - side), column = std::min(c, columns - side);
      detail::transpose_block(from + row * from_stride + column, from_stride, to + column * to_stride + row,
                              to_stride);
    }
}

} // namespace mailgrad
