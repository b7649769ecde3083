#pragma once

#include <mailgrad/kernels/attention.hpp>

namespace mailgrad::host {

// kernels/attention.hpp on the calling thread. It keeps the probabilities: float32[batch, heads, window,
// window], zeros above the diagonal.

std::size_t attention_scratch_bytes(const attention_shape& a) noexcept;
std::size_t attention_gradient_scratch_bytes(const attention_shape& a) noexcept;

void causal_attention(const attention_shape& a, const float* qkv, float* y, float* probabilities,
                      void* scratch);
void causal_attention_gradient(const attention_shape& a, const float* qkv, const float* probabilities,
                               const float* dy, float* dqkv, void* scratch);

} // namespace mailgrad::host
