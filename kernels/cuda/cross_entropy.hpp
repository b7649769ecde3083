#pragma once

#include <mailgrad/kernels/cross_entropy.hpp>

namespace mailgrad::cuda {

// The CUDA half of kernels/cross_entropy.hpp. A label that is no class is noted as a fault of the stream, and
// its row adds nothing to the loss.

void cross_entropy(const cuda_stream& s, const float* logits, const std::int32_t* labels, float* loss,
                   float* probabilities, std::size_t rows, std::size_t columns);
void cross_entropy_gradient(const cuda_stream& s, const float* probabilities, const std::int32_t* labels,
                            const float* d_loss, float* d_logits, std::size_t rows, std::size_t columns);

} // namespace mailgrad::cuda
