#pragma once

#include <mailgrad/kernels/cross_entropy.hpp>

namespace mailgrad::host {

// kernels/cross_entropy.hpp on the calling thread.

void cross_entropy(const float* logits, const std::int32_t* labels, float* loss, float* probabilities,
                   std::size_t rows, std::size_t columns);
void cross_entropy_gradient(const float* probabilities, const std::int32_t* labels, const float* d_loss,
                            float* d_logits, std::size_t rows, std::size_t columns);

} // namespace mailgrad::host
