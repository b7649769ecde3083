#pragma once

#include <mailgrad/kernels/pairwise_dots.hpp>

namespace mailgrad::cuda {

// The CUDA half of kernels/pairwise_dots.hpp.

void pairwise_dots(const cuda_stream& s, const vector_sets& sets, const float* x, float* dots);
void pairwise_dots_gradient(const cuda_stream& s, const vector_sets& sets, const float* x, const float* ddots,
                            float* dx);

} // namespace mailgrad::cuda
