#pragma once

#include <mailgrad/kernels/cuda/launch.hpp>

#include <cstddef>

namespace mailgrad::cuda {

/// The sum of term(i) for i = first, first + step and so on below `last`. Eight terms are loaded before the
/// first of them is added, so that the loads are under way together.
template <class Term>
__device__ float strided_sum(std::size_t first, std::size_t last, std::size_t step, Term term) {
  constexpr unsigned batch = 8;
  float total = 0;
  for (; first < last; first += batch * step) {
    float terms[batch];
#pragma unroll
    for (unsigned j = 0; j < batch; ++j) {
      const std::size_t i = first + j * step;
      terms[j] = i < last ? term(i) : 0.0F;
    }
#pragma unroll
    for (unsigned j = 0; j < batch; ++j) total += terms[j];
  }
  return total;
}

} // namespace mailgrad::cuda
