#pragma once

#include <mailgrad/kernels/functors/approximations.hpp>
#include <mailgrad/kernels/host/vector.hpp>
#include <mailgrad/tensor/shape.hpp>

#include <algorithm>

namespace mailgrad {

/// Walks all axes but the innermost, over which the kernel loops, and computes the offset of each operand.
template <std::size_t Operands>
class odometer {
public:
  /// `strides` of each operand in elements, as many as there are extents; no extent is 0.
  odometer(std::span<const std::size_t> extents, const std::array<const std::size_t*, Operands>& strides)
      : extents_(extents), strides_(strides) {}

  std::size_t offset(std::size_t operand) const noexcept { return offsets_[operand]; }

  /// Moves to the next innermost row; returns false after the last.
  bool advance() noexcept {
    for (std::size_t axis = extents_.size() - 1; axis-- > 0;) {
      for (std::size_t i = 0; i < Operands; ++i) offsets_[i] += strides_[i][axis];
      if (++index_[axis] < extents_[axis]) return true;
      for (std::size_t i = 0; i < Operands; ++i) offsets_[i] -= strides_[i][axis] * extents_[axis];
      index_[axis] = 0;
    }
    return false;
  }

private:
  std::span<const std::size_t> extents_;
  std::array<const std::size_t*, Operands> strides_;
  std::array<std::size_t, shape::max_rank> index_{};
  std::array<std::size_t, Operands> offsets_{};
};

/// The sum of term(i) for i < n, for rows so short that they need no pairwise summation. Two vectors of
/// partial sums are joined in registers. `omp simd reduction` would add the lanes one by one, which takes
/// longer than a row of 64.
template <class Term>
float row_sum(std::size_t n, Term term) {
  constexpr std::size_t lanes = 2 * simd::width;
  float partial[lanes] = {};
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes)
#pragma omp simd
    for (std::size_t lane = 0; lane < lanes; ++lane) partial[lane] += term(i + lane);
  float rest = 0;
  for (; i < n; ++i) rest += term(i);
  return simd::sum(simd::load(partial) + simd::load(partial + simd::width)) + rest;
}

/// The number of rows that are computed together. The exponentials of short rows vectorise only as one long
/// row, which should still fit into the L1 cache.
inline std::size_t rows_at_once(std::size_t columns) {
  constexpr std::size_t elements = 2048;
  return std::max<std::size_t>(1, elements / std::max<std::size_t>(1, columns));
}

/// y = scale (x - its largest element).
inline void shift_row(const float* x, float* y, std::size_t n, float scale = 1) {
  float largest = n > 0 ? x[0] : 0;
#pragma omp simd reduction(max : largest)
  for (std::size_t i = 0; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
#pragma omp simd
  for (std::size_t i = 0; i < n; ++i) y[i] = (x[i] - largest) * scale;
}

/// y = exp(y), for elements that are at most 0, as shift_row() leaves them.
inline void exponentiate(float* y, std::size_t n) {
#pragma omp simd
  for (std::size_t i = 0; i < n; ++i) y[i] = approximate::exp_of_negative(y[i]);
}

/// Divides y by its sum, and returns the sum.
inline float normalise_row(float* y, std::size_t n) {
  const float sum = row_sum(n, [y](std::size_t i) { return y[i]; });
  const float factor = 1 / sum;
#pragma omp simd
  for (std::size_t i = 0; i < n; ++i) y[i] *= factor;
  return sum;
}

} // namespace mailgrad
