#pragma once

#include <mailgrad/kernels/pairwise_dots.hpp>

namespace mailgrad::host {

// kernels/pairwise_dots.hpp on the calling thread.

void pairwise_dots(const vector_sets& sets, const float* x, float* dots);
void pairwise_dots_gradient(const vector_sets& sets, const float* x, const float* ddots, float* dx);

} // namespace mailgrad::host
