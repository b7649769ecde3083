#pragma once

#include <mailgrad/kernels/round_floats.hpp>

namespace mailgrad::cuda {

// The CUDA half of kernels/round_floats.hpp.

void round_floats(const cuda_stream& s, std::span<const float> x, bfloat16* y);
void widen_floats(const cuda_stream& s, std::span<const bfloat16> x, float* y);

} // namespace mailgrad::cuda
