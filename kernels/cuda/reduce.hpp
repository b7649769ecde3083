#pragma once

#include <mailgrad/kernels/reduce.hpp>

namespace mailgrad::cuda {

// The CUDA half of kernels/reduce.hpp. Sums are made in two stages where there are few results.

void sum(const cuda_stream& s, const sum_plan& plan, read_numbers x, float scale, float* y);
void mean_squared_difference(const cuda_stream& s, const float* a, const float* b, std::size_t n, float* y);

} // namespace mailgrad::cuda
