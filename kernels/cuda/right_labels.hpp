#pragma once

#include <mailgrad/kernels/right_labels.hpp>

namespace mailgrad::cuda {

/// The CUDA half of kernels/right_labels.hpp.
void count_right_labels(const cuda_stream& s, const float* logits, const std::int32_t* labels,
                        std::int32_t* right, std::size_t rows, std::size_t columns);

} // namespace mailgrad::cuda
