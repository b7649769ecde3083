#pragma once

#include <mailgrad/kernels/gemm.hpp>
#include <mailgrad/kernels/host/product/gemm_tile.hpp>
#include <mailgrad/kernels/host/product/transpose.hpp>
#include <mailgrad/kernels/host/vector.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

/// Products with so few columns that most of a register tile would be zeros.

namespace mailgrad {

/// The product of one row with a matrix, as the prediction of one sample needs it. Each number of B is read
/// once, so the rate is that of memory: rows of B are read whole, as they lie, and those that meet a zero of
/// A are not read at all. Behind relu, and in most pictures, these are half of them or more. What such a row
/// holds does not matter then, not even if it is infinite.
class row_product {
public:
  static bool suits(const gemm_shape& g) {
    return g.m == 1 && g.b == operand_order::as_is && g.n > 1 && g.k <= UINT32_MAX;
  }

  static std::size_t scratch_bytes(const gemm_shape& g) { return g.k * sizeof(std::uint32_t); }

  row_product(const gemm_shape& g, const float* a, const float* b, float* c, void* scratch)
      : n_(g.n), k_(g.k), a_(a), b_(b), c_(c), used_(static_cast<std::uint32_t*>(scratch)) {}

  void run() const {
    const std::size_t count = list_used();
    std::fill_n(c_, n_, 0.0F);
    std::size_t i = 0;
    for (; i + at_once <= count; i += at_once) add_rows<at_once>(used_ + i);
    for (; i < count; ++i) add_rows<1>(used_ + i);
  }

private:
  /// Rows of B that are added to C in one pass over it. With 4 or 16 it is slower by a tenth.
  static constexpr std::size_t at_once = 8;

  /// Lists the rows of B that meet no zero, and returns their number. There is no branch to mispredict.
  std::size_t list_used() const {
    std::size_t count = 0;
    for (std::size_t p = 0; p < k_; ++p) {
      used_[count] = static_cast<std::uint32_t>(p);
      count += a_[p] != 0 ? 1 : 0;
    }
    return count;
  }

  template <std::size_t Rows>
  void add_rows(const std::uint32_t* which) const {
    const float* rows[Rows];
    float by[Rows];
    for (std::size_t r = 0; r < Rows; ++r) {
      rows[r] = b_ + std::size_t{which[r]} * n_;
      by[r] = a_[which[r]];
    }
    std::size_t column = 0;
    for (; column + simd::width <= n_; column += simd::width) {
      simd::vector sum = simd::load(c_ + column);
      for (std::size_t r = 0; r < Rows; ++r) sum += simd::load(rows[r] + column) * by[r];
      simd::store(c_ + column, sum);
    }
    for (; column < n_; ++column)
      for (std::size_t r = 0; r < Rows; ++r) c_[column] += rows[r][column] * by[r];
  }

  std::size_t n_, k_;
  const float* a_;
  const float* b_;
  float* c_;
  std::uint32_t* used_; ///< rows of B, at most k
};

/// One product with few columns, computed as dot products of rows of A with rows of the transpose of B.
class dot_product {
public:
  dot_product(const gemm_shape& g, const float* a, const float* b, float* c, float* turned)
      : g_(g), a_(a), b_(b), c_(c), turned_(turned) {}

  static std::size_t scratch_floats(const gemm_shape& g) { return g.n * g.k; }

  void run() const {
    if (g_.b == operand_order::as_is) transpose(b_, g_.n, turned_, g_.k, g_.k, g_.n);
    const float* const columns = g_.b == operand_order::as_is ? turned_ : b_;
    std::size_t column = 0;
    for (; column + 5 <= g_.n; column += 5) fill_columns<5>(columns, column);
    for (; column + 2 <= g_.n; column += 2) fill_columns<2>(columns, column);
    if (column < g_.n) fill_columns<1>(columns, column);
  }

private:
  /// Computes some columns of C for all rows. Five columns of B leave room for rows of A in the L1 cache.
  template <std::size_t Columns>
  void fill_columns(const float* columns, std::size_t column) const {
    const float* const right = columns + column * g_.k;
    std::size_t row = 0;
    for (; row + 2 <= g_.m; row += 2)
      tile::dot<2, Columns>(a_ + row * g_.k, g_.k, right, g_.k, g_.k, c_ + row * g_.n + column, g_.n);
    if (row < g_.m)
      tile::dot<1, Columns>(a_ + row * g_.k, g_.k, right, g_.k, g_.k, c_ + row * g_.n + column, g_.n);
  }

  gemm_shape g_;
  const float* a_;
  const float* b_;
  float* c_;
  float* turned_;
};

/// The length of a row of A as it lies in memory.
inline std::size_t row_length(const gemm_shape& g) { return g.a == operand_order::as_is ? g.k : g.m; }

/// One product with one column. The rows of A are so short that there is a compiled loop for each length.
class short_row_product {
public:
  static bool suits(const gemm_shape& g) { return g.n == 1 && row_length(g) <= longest; }

  static void run(const gemm_shape& g, const float* a, const float* b, float* c) {
    run(g, a, b, c, std::make_index_sequence<longest>{});
  }

private:
  static constexpr std::size_t longest = 2 * simd::width - 1;

  template <std::size_t... Less>
  static void run(const gemm_shape& g, const float* a, const float* b, float* c,
                  std::index_sequence<Less...>) {
    constexpr std::array functions{multiply<Less + 1>...};
    functions[row_length(g) - 1](g, a, b, c);
  }

  template <std::size_t Length>
  static void multiply(const gemm_shape& g, const float* a, const float* b, float* c) {
    if (g.a == operand_order::as_is)
      multiply_rows<Length>(g.m, a, b, c);
    else
      add_rows<Length>(g.k, a, b, c);
  }

  template <std::size_t Length>
  static void multiply_rows(std::size_t rows, const float* a, const float* b, float* c) {
    for (std::size_t row = 0; row < rows; ++row, a += Length) {
      float sum = 0;
      for (std::size_t p = 0; p < Length; ++p) sum += a[p] * b[p];
      c[row] = sum;
    }
  }

  /// Multiplies the transpose of A with b: adds up the rows of A, each times a number of b. There are two
  /// sums, since each addition to one sum waits for the last.
  template <std::size_t Length>
  static void add_rows(std::size_t rows, const float* a, const float* b, float* c) {
    float sums[2][Length] = {};
    std::size_t row = 0;
    for (; row + 2 <= rows; row += 2, a += 2 * Length)
      for (std::size_t half = 0; half < 2; ++half)
        for (std::size_t i = 0; i < Length; ++i) sums[half][i] += a[half * Length + i] * b[row + half];
    for (std::size_t i = 0; i < Length; ++i)
      c[i] = sums[0][i] + sums[1][i] + (row < rows ? a[i] * b[row] : 0);
  }
};

} // namespace mailgrad
