#pragma once

#include <mailgrad/kernels/map_weights.hpp>

namespace mailgrad::host {

/// map_weights() on the calling thread. The caller has checked the number of arrays.
void map_weights(const weight_function& f, std::span<const float* const> reads,
                 std::span<float* const> writes, std::size_t n);

} // namespace mailgrad::host
