#pragma once

#include <mailgrad/kernels/softmax.hpp>

namespace mailgrad::cuda {

// The CUDA half of kernels/softmax.hpp.

void softmax(const cuda_stream& s, const float* x, float* y, std::size_t rows, std::size_t columns);
void softmax_gradient(const cuda_stream& s, const float* y, const float* dy, float* dx, std::size_t rows,
                      std::size_t columns);

} // namespace mailgrad::cuda
