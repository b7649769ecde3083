#pragma once

#include <mailgrad/kernels/gemm.hpp>

namespace mailgrad::host {

/// gemm() on the calling thread.
void gemm(const gemm_shape& g, const float* a, const float* b, float* c, void* scratch, next_use c_use);

} // namespace mailgrad::host
