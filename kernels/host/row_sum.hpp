#pragma once

#include <mailgrad/kernels/host/vector.hpp>

#include <cstddef>

namespace mailgrad {

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

} // namespace mailgrad
