#pragma once

#include <mailgrad/kernels/pooling.hpp>

namespace mailgrad::host {

// kernels/pooling.hpp on the calling thread.

void max_pool(const window_grid& g, const float* x, float* y, std::int32_t* chosen);
void max_pool_gradient(const window_grid& g, const float* dy, const std::int32_t* chosen, float* dx);
void average_pool(const window_grid& g, const float* x, float* y);
void average_pool_gradient(const window_grid& g, const float* dy, float* dx);

} // namespace mailgrad::host
