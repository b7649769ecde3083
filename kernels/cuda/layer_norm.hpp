#pragma once

#include <mailgrad/kernels/layer_norm.hpp>

namespace mailgrad::cuda {

// The CUDA half of kernels/layer_norm.hpp.

void layer_norm(const cuda_stream& s, const layer_norm_rows& r, const float* x, const float* gamma,
                const float* beta, written_numbers y, float* mean, float* inverse);
void layer_norm_gradient(const cuda_stream& s, const layer_norm_rows& r, const float* x, const float* gamma,
                         const float* mean, const float* inverse, read_numbers dy, float* dx, float* dgamma,
                         float* dbeta);

} // namespace mailgrad::cuda
