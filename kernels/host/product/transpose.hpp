#pragma once

#include <mailgrad/kernels/host/vector.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace mailgrad {

namespace detail {

inline void transpose_block(const float* from, std::size_t from_stride, float* to, std::size_t to_stride) {
  simd::vector rows[simd::width];
  for (std::size_t i = 0; i < simd::width; ++i) rows[i] = simd::load(from + i * from_stride);
  simd::transpose(rows);
  for (std::size_t i = 0; i < simd::width; ++i) simd::store(to + i * to_stride, rows[i]);
}

/// Copies fewer floats than a vector has, in pieces of half the size each. A call of memcpy takes longer.
template <std::size_t Piece = simd::width / 2>
void copy_few(const float* from, float* to, std::size_t count) {
  if ((count & Piece) != 0) {
    std::memcpy(to, from, Piece * sizeof(float));
    from += Piece;
    to += Piece;
  }
  if constexpr (Piece > 1) copy_few<Piece / 2>(from, to, count);
}

/// Transposes a matrix with fewer rows than a square and at least as many columns.
inline void transpose_few_rows(const float* from, std::size_t from_stride, float* to, std::size_t to_stride,
                               std::size_t rows, std::size_t columns) {
  constexpr std::size_t side = simd::width;
  simd::vector square[side]{}; // cleared once: the lanes of missing rows are never copied out
  for (std::size_t c = 0; c < columns; c += side) {
    const std::size_t column = std::min(c, columns - side);
    for (std::size_t r = 0; r < rows; ++r) square[r] = simd::load(from + r * from_stride + column);
    simd::transpose(square);
    float turned[side * side];
    for (std::size_t i = 0; i < side; ++i) simd::store(turned + i * side, square[i]);
    for (std::size_t i = 0; i < side; ++i) copy_few(turned + i * side, to + (column + i) * to_stride, rows);
  }
}

/// Transposes a matrix with fewer columns than a square and at least as many rows.
inline void transpose_few_columns(const float* from, std::size_t from_stride, float* to,
                                  std::size_t to_stride, std::size_t rows, std::size_t columns) {
  constexpr std::size_t side = simd::width;
  float square[side * side]{};
  for (std::size_t r = 0; r < rows; r += side) {
    const std::size_t row = std::min(r, rows - side);
    for (std::size_t i = 0; i < side; ++i)
      copy_few(from + (row + i) * from_stride, square + i * side, columns);
    float turned[side * side];
    transpose_block(square, side, turned, side);
    for (std::size_t c = 0; c < columns; ++c)
      simd::store(to + c * to_stride + row, simd::load(turned + c * side));
  }
}

} // namespace detail

/// to[c * to_stride + r] = from[r * from_stride + c] for all r < rows, c < columns.
///
/// The matrix is transposed in squares as wide as a vector. A square that would reach over an edge is moved
/// back from it, so some elements are copied twice.
inline void transpose(const float* from, std::size_t from_stride, float* to, std::size_t to_stride,
                      std::size_t rows, std::size_t columns) {
  constexpr std::size_t side = simd::width;
  if (rows < side && columns < side) {
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < columns; ++c) to[c * to_stride + r] = from[r * from_stride + c];
    return;
  }
  if (rows < side) return detail::transpose_few_rows(from, from_stride, to, to_stride, rows, columns);
  if (columns < side) return detail::transpose_few_columns(from, from_stride, to, to_stride, rows, columns);
  for (std::size_t r = 0; r < rows; r += side)
    for (std::size_t c = 0; c < columns; c += side) {
      const std::size_t row = std::min(r, rows - side), column = std::min(c, columns - side);
      detail::transpose_block(from + row * from_stride + column, from_stride, to + column * to_stride + row,
                              to_stride);
    }
}

} // namespace mailgrad
