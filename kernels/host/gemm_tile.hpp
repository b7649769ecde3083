#pragma once

#include <mailgrad/kernels/host/vector.hpp>

#include <algorithm>
#include <array>
#include <cstdint>

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

/// The innermost loops of matrix products: parts of C that fit into registers.

namespace mailgrad::tile {

/// A tile is two vectors wide and as high as leaves three registers for the operands: 6 x 16 floats with the
/// 16 registers of AVX, 14 x 32 with the 32 registers of AVX-512.
inline constexpr std::size_t vectors = 2;
inline constexpr std::size_t rows = (simd::registers - 3) / vectors;
inline constexpr std::size_t columns = vectors * simd::width;

/// Rows, columns or a depth of a matrix.
struct range {
  std::size_t first, last;
  std::size_t size() const { return last - first; }
};

/// A rows x k part of A: element (r, p) lies at values[r * row_step + p * inner_step].
struct left_part {
  const float* values;
  std::size_t row_step;
  std::size_t inner_step;
  static constexpr std::size_t runs = 1;

  template <std::size_t>
  struct walk {
    walk(const left_part& a, std::size_t)
        : values(a.values), row_step(a.row_step), inner_step(a.inner_step) {}
    float row(std::size_t r) const { return values[r * row_step]; }
    void advance() { values += inner_step; }

    const float* values;
    std::size_t row_step, inner_step;
  };
};

/// A left_part with a row step of 1, which is copied as it is read. In the copy, without gaps, element (r, p)
/// lies at copy[p * Rows + r].
struct copied_left_part {
  const float* values;
  std::size_t inner_step;
  float* copy;
  static constexpr std::size_t runs = 1;

  template <std::size_t Rows>
  struct walk {
    walk(const copied_left_part& a, std::size_t) : values(a.values), inner_step(a.inner_step), copy(a.copy) {}
    float row(std::size_t r) const { return values[r]; }
    void advance() {
      simd::prefetch_to_l2(values + simd::cache_line); // the next cache line of this stride, for later tiles
      std::memcpy(copy, values, Rows * sizeof(float));
      values += inner_step;
      copy += Rows;
    }

    const float* values;
    std::size_t inner_step;
    float* copy;
  };
};

/// A left_part cut into runs along k: element (r, p) of a run lies at values[run * run_step + r + p *
/// inner_step].
struct left_runs {
  const float* values;
  std::size_t inner_step;
  std::size_t runs;
  std::size_t run_step;

  template <std::size_t>
  struct walk {
    walk(const left_runs& a, std::size_t run)
        : values(a.values + run * a.run_step), inner_step(a.inner_step) {}
    float row(std::size_t r) const { return values[r]; }
    void advance() { values += inner_step; }

    const float* values;
    std::size_t inner_step;
  };
};

/// Runs whose rows may lie anywhere: element (r, p) of a run lies at values[r][run * run_step + p].
struct scattered_left_part {
  std::array<const float*, rows> values;
  std::size_t runs = 1;
  std::size_t run_step = 0;

  template <std::size_t Rows>
  struct walk {
    walk(const scattered_left_part& a, std::size_t run) {
      for (std::size_t r = 0; r < Rows; ++r) values[r] = a.values[r] + run * a.run_step;
    }
    float row(std::size_t r) const { return values[r][p]; }
    void advance() { ++p; }

    const float* values[Rows];
    std::size_t p = 0;
  };
};

/// A k x columns part of B: its rows lie `step` apart.
struct right_part {
  const float* values;
  std::size_t step;

  template <std::size_t Vectors>
  void read(simd::vector (&row)[Vectors]) {
#pragma GCC unroll 16
    for (std::size_t v = 0; v < Vectors; ++v) row[v] = simd::load(values + v * simd::width);
    values += step;
  }
};

/// A right_part that is copied as it is read. The rows of the copy lie `columns` apart.
struct copied_right_part {
  const float* values;
  std::size_t step;
  float* copy;

  template <std::size_t Vectors>
  void read(simd::vector (&row)[Vectors]) {
#pragma GCC unroll 16
    for (std::size_t v = 0; v < Vectors; ++v) {
      row[v] = simd::load(values + v * simd::width);
      simd::store(copy + v * simd::width, row[v]);
    }
    simd::prefetch_to_l2(values + columns); // for the next panel
    values += step;
    copy += columns;
  }
};

/// C is overwritten, or added to, or overwritten past the caches; for the last, its rows lie on cache lines.
enum class into : std::uint8_t { overwrite, add, past_caches };

/// Where the sums start when C is overwritten. A branch instead would force the sums out of their registers.
alignas(64) inline constexpr float zeros[columns] = {};

/// C (+)= A B for Rows rows and Vectors vectors of columns; `k` is the depth of one run of A.
template <class Left, class Right, std::size_t Rows, std::size_t Vectors>
void multiply(const Left& a, Right b, std::size_t k, float* c, std::size_t c_step, into how) {
  const float* const from = how == into::add ? c : zeros;
  const std::size_t from_step = how == into::add ? c_step : 0;
  simd::vector sum[Rows][Vectors];
  if (how != into::past_caches) {
#pragma GCC unroll 16
    for (std::size_t r = 0; r < Rows; ++r) simd::prefetch_to_write(c + r * c_step);
  }
#pragma GCC unroll 16
  for (std::size_t r = 0; r < Rows; ++r)
#pragma GCC unroll 16
    for (std::size_t v = 0; v < Vectors; ++v) sum[r][v] = simd::load(from + r * from_step + v * simd::width);
  for (std::size_t run = 0; run < a.runs; ++run) {
    typename Left::template walk<Rows> left(a, run);
#pragma GCC unroll 4
    for (std::size_t p = 0; p < k; ++p, left.advance()) {
      simd::vector row[Vectors];
      b.read(row);
#pragma GCC unroll 16
      for (std::size_t r = 0; r < Rows; ++r) {
        const float factor = left.row(r);
#pragma GCC unroll 16
        for (std::size_t v = 0; v < Vectors; ++v) sum[r][v] += factor * row[v];
      }
    }
  }
  const auto store_sums = [&](auto store) {
#pragma GCC unroll 16
    for (std::size_t r = 0; r < Rows; ++r)
#pragma GCC unroll 16
      for (std::size_t v = 0; v < Vectors; ++v) store(c + r * c_step + v * simd::width, sum[r][v]);
  };
  if (how == into::past_caches)
    store_sums(simd::store_past_caches);
  else
    store_sums(simd::store);
}

namespace detail {

template <class Left, class Right>
using multiply_function = void (*)(const Left&, Right, std::size_t, float*, std::size_t, into);

template <class Left, class Right, std::size_t Vectors, std::size_t... Rows>
constexpr std::array<multiply_function<Left, Right>, rows> multiply_table(std::index_sequence<Rows...>) {
  return {multiply<Left, Right, Rows + 1, Vectors>...};
}

/// The functions, indexed by the number of rows less one.
template <class Left, class Right, std::size_t Vectors>
inline constexpr auto
    multiply_of_rows = multiply_table<Left, Right, Vectors>(std::make_index_sequence<rows>{});

} // namespace detail

/// The part of C that a tile computes: at most `rows` x `columns`.
struct result_part {
  float* values;
  std::size_t step; ///< between its rows
  std::size_t row_count, column_count;
};

/// C (+)= A B for a part of C of any size. B has whole vectors, which may reach over the right edge of C. The
/// product then goes to `spare`, of rows x columns floats, and from there to C.
template <class Left, class Right>
void multiply_part(const Left& a, const Right& b, std::size_t k, const result_part& c, into how,
                   float* spare) {
  const bool wide = c.column_count > simd::width;
  const auto multiply_rows = (wide ? detail::multiply_of_rows<Left, Right, 2>
                                   : detail::multiply_of_rows<Left, Right, 1>)[c.row_count - 1];
  if (c.column_count == (wide ? columns : simd::width)) return multiply_rows(a, b, k, c.values, c.step, how);
  multiply_rows(a, b, k, spare, columns, into::overwrite);
  for (std::size_t r = 0; r < c.row_count; ++r)
    for (std::size_t i = 0; i < c.column_count; ++i) {
      float& value = c.values[r * c.step + i];
      value = (how == into::add ? value : 0) + spare[r * columns + i];
    }
}

/// Calls visit(first, last) for parts of [first, last) of at most `rows` rows each. They are about equally
/// high, because a tile of few rows waits for its own additions.
template <class Visit>
void for_each_height(std::size_t first, std::size_t last, Visit visit) {
  for (std::size_t tiles = (last - first + rows - 1) / rows; tiles > 0; --tiles) {
    const std::size_t end = first + (last - first) / tiles;
    visit(first, end);
    first = end;
  }
}

/// C = A B where the columns of B lie `b_step` apart: each element of C is a dot product along k. It serves
/// results with too few columns for a vector.
///
/// The function is not inlined, because the loops around it would force its pointers out of registers.
template <std::size_t Rows, std::size_t Columns>
[[gnu::noinline]] void dot(const float* a, std::size_t a_step, const float* b, std::size_t b_step,
                           std::size_t k, float* c, std::size_t c_step) {
  simd::vector sum[Rows][Columns] = {};
  const auto add_products = [&](const simd::vector(&left)[Rows], auto load, std::size_t p) {
#pragma GCC unroll 16
    for (std::size_t j = 0; j < Columns; ++j) {
      const simd::vector right = load(b + j * b_step + p);
#pragma GCC unroll 16
      for (std::size_t r = 0; r < Rows; ++r) sum[r][j] += left[r] * right;
    }
  };
  const auto walk = [&](std::size_t p, auto load) {
    simd::vector left[Rows];
#pragma GCC unroll 16
    for (std::size_t r = 0; r < Rows; ++r) left[r] = load(a + r * a_step + p);
    add_products(left, load, p);
  };
  std::size_t p = 0;
  for (; p + simd::width <= k; p += simd::width) walk(p, simd::load);
  if (p < k) walk(p, [=](const float* from) { return simd::load_part(from, k - p); });
#pragma GCC unroll 16
  for (std::size_t r = 0; r < Rows; ++r)
#pragma GCC unroll 16
    for (std::size_t j = 0; j < Columns; ++j) c[r * c_step + j] = simd::sum(sum[r][j]);
}

} // namespace mailgrad::tile
