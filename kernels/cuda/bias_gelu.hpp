#pragma once

#include <mailgrad/kernels/bias_gelu.hpp>

namespace mailgrad::cuda {

// The CUDA half of kernels/bias_gelu.hpp.

void bias_gelu(const cuda_stream& s, read_numbers x, const float* b, written_numbers y, written_numbers slope,
               std::size_t rows, std::size_t columns);
void bias_gelu_gradient(const cuda_stream& s, read_numbers slope, read_numbers dy, written_numbers dz,
                        float* db, std::size_t rows, std::size_t columns);

} // namespace mailgrad::cuda
