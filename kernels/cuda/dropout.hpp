#pragma once

#include <mailgrad/kernels/dropout.hpp>

namespace mailgrad::cuda {

/// dropout() on a stream of a card. The step is that of the card's words, not of `draw`, so that a captured
/// launch draws anew in each step.
void dropout(const cuda_stream& s, const dropout_draw& draw, const float* x, float* y, std::size_t size);

} // namespace mailgrad::cuda
