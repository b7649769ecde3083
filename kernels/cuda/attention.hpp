#pragma once

#include <mailgrad/kernels/attention.hpp>

namespace mailgrad::cuda {

// The CUDA half of kernels/attention.hpp.

void causal_attention(const cuda_stream& s, const attention_shape& a, const float* qkv, float* y,
                      float* log_sums);
void causal_attention_gradient(const cuda_stream& s, const attention_shape& a, const float* qkv,
                               const float* y, const float* log_sums, const float* dy, float* dqkv,
                               void* scratch);

void causal_attention(const cuda_stream& s, const attention_shape& a, const bfloat16* qkv, written_numbers y,
                      float* log_sums);
void causal_attention_gradient(const cuda_stream& s, const attention_shape& a, const bfloat16* qkv,
                               read_numbers y, const float* log_sums, const bfloat16* dy,
                               written_numbers dqkv, void* scratch);

} // namespace mailgrad::cuda
