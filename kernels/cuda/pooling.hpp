#pragma once

#include <mailgrad/kernels/pooling.hpp>

namespace mailgrad::cuda {

// The CUDA half of kernels/pooling.hpp. A gradient is gathered: each element of dx adds up its windows, in
// the order in which the host does, so that the results have the host's bits.

void max_pool(const cuda_stream& s, const window_grid& g, const float* x, float* y, std::int32_t* chosen);
void max_pool_gradient(const cuda_stream& s, const window_grid& g, const float* dy,
                       const std::int32_t* chosen, float* dx);
void average_pool(const cuda_stream& s, const window_grid& g, const float* x, float* y);
void average_pool_gradient(const cuda_stream& s, const window_grid& g, const float* dy, float* dx);

} // namespace mailgrad::cuda
