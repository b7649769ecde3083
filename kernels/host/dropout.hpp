#pragma once

#include <mailgrad/kernels/dropout.hpp>

namespace mailgrad::host {

/// dropout() on the calling thread.
void dropout(const dropout_draw& draw, const float* x, float* y, std::size_t size);

} // namespace mailgrad::host
