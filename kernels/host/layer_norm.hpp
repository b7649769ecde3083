#pragma once

#include <mailgrad/kernels/layer_norm.hpp>

namespace mailgrad::host {

// kernels/layer_norm.hpp on the calling thread.

void layer_norm(const layer_norm_rows& r, const float* x, const float* gamma, const float* beta, float* y,
                float* mean, float* inverse);
void layer_norm_gradient(const layer_norm_rows& r, const float* x, const float* gamma, const float* mean,
                         const float* inverse, const float* dy, float* dx, float* dgamma, float* dbeta);

} // namespace mailgrad::host
