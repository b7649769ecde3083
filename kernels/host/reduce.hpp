#pragma once

#include <mailgrad/kernels/reduce.hpp>

namespace mailgrad::host {

// kernels/reduce.hpp on the calling thread.

void sum(const sum_plan& plan, const float* x, float scale, float* y);
void mean_squared_difference(const float* a, const float* b, std::size_t n, float* y);

} // namespace mailgrad::host
