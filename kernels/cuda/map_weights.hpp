#pragma once

#include <mailgrad/kernels/map_weights.hpp>

namespace mailgrad::cuda {

/// map_weights() on a stream of a GPU. All memory lies on its device; the call returns before the kernel has
/// run.
void map_weights(const cuda_stream& s, const weight_function& f, std::span<const float* const> reads,
                 std::span<float* const> writes, std::size_t n);

} // namespace mailgrad::cuda
