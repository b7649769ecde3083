#pragma once

#include <mailgrad/kernels/functors/approximations.hpp>

#include <algorithm>
#include <cstddef>

namespace mailgrad {

/// Rows that are taken together: exponentials of short rows vectorise only as one long row, which should not
/// outgrow the L1 cache.
inline std::size_t rows_at_once(std::size_t columns) {
  constexpr std::size_t elements = 2048;
  return std::max<std::size_t>(1, elements / std::max<std::size_t>(1, columns));
}

/// y = x - its largest element.
inline void shift_row(const float* x, float* y, std::size_t n) {
  float largest = n > 0 ? x[0] : 0;
#pragma omp simd reduction(max : largest)
  for (std::size_t i = 0; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
#pragma omp simd
  for (std::size_t i = 0; i < n; ++i) y[i] = x[i] - largest;
}

inline void exponentiate(float* y, std::size_t n) {
#pragma omp simd
  for (std::size_t i = 0; i < n; ++i) y[i] = approximate::exp(y[i]);
}

/// y divided by its sum, which is returned.
inline float normalise_row(float* y, std::size_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::size_t i = 0; i < n; ++i) sum += y[i];
  const float factor = 1 / sum;
#pragma omp simd
  for (std::size_t i = 0; i < n; ++i) y[i] *= factor;
  return sum;
}

} // namespace mailgrad
