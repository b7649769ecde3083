#pragma once

#include <mailgrad/kernels/functors/approximations.hpp>

#include <cstddef>

namespace mailgrad {

/// What a row of logits comes to.
struct softmax_sum {
  float largest;
  float sum; ///< of exp(x - largest)
};

/// y = exp(x - largest), not yet divided by the sum. A NaN in x is in the sum.
inline softmax_sum exponentials(const float* x, float* y, std::size_t n) {
  float largest = n > 0 ? x[0] : 0;
#pragma omp simd reduction(max : largest)
  for (std::size_t i = 0; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::size_t i = 0; i < n; ++i) {
    y[i] = approximate::exp(x[i] - largest);
    sum += y[i];
  }
  return {largest, sum};
}

inline void scale(float* y, float factor, std::size_t n) {
#pragma omp simd
  for (std::size_t i = 0; i < n; ++i) y[i] *= factor;
}

} // namespace mailgrad
