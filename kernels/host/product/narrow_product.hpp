#pragma once

#include <mailgrad/kernels/gemm.hpp>
#include <mailgrad/kernels/host/product/gemm_tile.hpp>
#include <mailgrad/kernels/host/product/transpose.hpp>

#include <array>
#include <cstddef>
#include <utility>

/// Products with so few columns that most of a register tile would be zeros.
namespace mailgrad {

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
