#pragma once

#include <mailgrad/kernels/softmax.hpp>

namespace mailgrad::host {

// kernels/softmax.hpp on the calling thread.

void softmax(const float* x, float* y, std::size_t rows, std::size_t columns);
void softmax_gradient(const float* y, const float* dy, float* dx, std::size_t rows, std::size_t columns);

} // namespace mailgrad::host
