#pragma once

#include <mailgrad/tensor/stream.hpp>

#include <cstddef>

namespace mailgrad {

/// The sizes of causal attention: in each sample and head, a position of the window attends to itself and to
/// those before it.
struct attention_shape {
  std::size_t batch = 0, window = 0, heads = 0;
  std::size_t head_width = 0; ///< numbers of a query, a key or a value of one head

  std::size_t width() const noexcept { return heads * head_width; }
};

std::size_t attention_scratch_bytes(const attention_shape& a) noexcept;
std::size_t attention_gradient_scratch_bytes(const attention_shape& a) noexcept;

/// Causal scaled dot-product attention: row i of a head is the sum over j <= i of p(i, j) value j, where p(i,
/// .) is the softmax of query i . key j / sqrt(head_width).
///
/// Source  Vaswani et al., "Attention Is All You Need", NIPS 2017, equation 1, with the mask of its section
///         3.2.3. Differs: most of what the mask hides is not computed.
/// Shapes  qkv: float32[batch, window, 3, heads, head_width]: queries, keys, values; y: [batch, window,
///         heads, head_width]; probabilities: [batch, heads, window, window], zeros above the diagonal;
///         scratch: attention_scratch_bytes(a), 64-byte aligned.
/// Errors  device_error for a stream of a GPU.
void causal_attention(const stream& s, const attention_shape& a, const float* qkv, float* y,
                      float* probabilities, void* scratch);

/// Computes the gradient with respect to qkv from dy, the gradient with respect to y.
///
/// Shapes  as causal_attention; dqkv as qkv; scratch: attention_gradient_scratch_bytes(a).
/// Errors  as causal_attention.
void causal_attention_gradient(const stream& s, const attention_shape& a, const float* qkv,
                               const float* probabilities, const float* dy, float* dqkv, void* scratch);

} // namespace mailgrad
