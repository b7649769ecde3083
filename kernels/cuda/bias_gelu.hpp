#pragma once

#include <mailgrad/kernels/bias_gelu.hpp>

namespace mailgrad::cuda {

// The CUDA half of kernels/bias_gelu.hpp.

void bias_gelu(const cuda_stream& s, const float* x, const float* b, float* y, float* slope, std::size_t rows,
               std::size_t columns);
void bias_gelu_gradient(const cuda_stream& s, const float* slope, const float* dy, float* dz, float* db,
                        std::size_t rows, std::size_t columns);

} // namespace mailgrad::cuda
