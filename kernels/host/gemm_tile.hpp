#pragma once

#include <mailgrad/kernels/host/vector.hpp>

#include <cstddef>

/// The innermost loops of matrix products: parts of C that fit into registers.
namespace mailgrad::tile {

/// Two vectors wide, and as many rows as leave three registers for the operands: with 16 registers 6 x 16
/// floats of AVX, with 32 registers 14 x 32 of AVX-512.
inline constexpr std::size_t vectors = 2;
inline constexpr std::size_t rows = (simd::registers - 3) / vectors;
inline constexpr std::size_t columns = vectors * simd::width;

/// A rows x k part of A: element (r, p) lies at values[r * row_step + p * inner_step].
struct left_part {
  const float* values;
  std::size_t row_step;
  std::size_t inner_step;
};

/// A k x columns part of B: its rows lie `step` apart.
struct right_part {
  const float* values;
  std::size_t step;
};

enum class into : bool { overwrite, add };

/// C (+)= A B for Rows rows and Vectors vectors of columns.
template <std::size_t Rows, std::size_t Vectors>
void multiply(const left_part& a, const right_part& b, std::size_t k, float* c, std::size_t c_step,
              into how) {
  simd::vector sum[Rows][Vectors];
#pragma GCC unroll 16
  for (std::size_t r = 0; r < Rows; ++r)
#pragma GCC unroll 16
    for (std::size_t v = 0; v < Vectors; ++v) {
      float* const place = c + r * c_step + v * simd::width;
      sum[r][v] = how == into::add ? simd::load(place) : simd::vector{};
    }
  const float* left = a.values;
  const float* right = b.values;
  for (std::size_t p = 0; p < k; ++p, left += a.inner_step, right += b.step) {
    simd::vector row[Vectors];
#pragma GCC unroll 16
    for (std::size_t v = 0; v < Vectors; ++v) row[v] = simd::load(right + v * simd::width);
#pragma GCC unroll 16
    for (std::size_t r = 0; r < Rows; ++r) {
      const float factor = left[r * a.row_step];
#pragma GCC unroll 16
      for (std::size_t v = 0; v < Vectors; ++v) sum[r][v] += factor * row[v];
    }
  }
#pragma GCC unroll 16
  for (std::size_t r = 0; r < Rows; ++r)
#pragma GCC unroll 16
    for (std::size_t v = 0; v < Vectors; ++v) simd::store(c + r * c_step + v * simd::width, sum[r][v]);
}

/// C = A B where the columns of B lie `b_step` apart: each element of C is a dot product along k. For results
/// too narrow to be walked in vectors.
///
/// Not inlined: among the loops around it, its pointers would not stay in registers.
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
