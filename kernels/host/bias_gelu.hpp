#pragma once

#include <mailgrad/kernels/bias_gelu.hpp>

namespace mailgrad::host {

// kernels/bias_gelu.hpp on the calling thread.

void bias_gelu(const float* x, const float* b, float* y, float* slope, std::size_t rows, std::size_t columns);
void bias_gelu_gradient(const float* slope, const float* dy, float* dz, float* db, std::size_t rows,
                        std::size_t columns);

} // namespace mailgrad::host
