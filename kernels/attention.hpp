#pragma once

#include <mailgrad/tensor/device.hpp>
#include <mailgrad/tensor/small_floats.hpp>
#include <mailgrad/tensor/stream.hpp>

namespace mailgrad {

/// The sizes of causal attention: in each sample and head, a position of the window attends to itself and to
/// those before it.
struct attention_shape {
  std::size_t batch = 0, window = 0, heads = 0;
  std::size_t head_width = 0; ///< numbers of a query, a key or a value of one head

  constexpr std::size_t width() const noexcept { return heads * head_width; }
};

/// A GPU computes heads of at most so many numbers.
inline constexpr std::size_t widest_head_of_gpu = 128;

/// What attention needs on a device of one kind, besides operands and result.
struct attention_workspace {
  std::size_t kept_floats = 0;            ///< that the gradient reads again
  std::size_t scratch_bytes = 0;          ///< of causal_attention
  std::size_t gradient_scratch_bytes = 0; ///< of causal_attention_gradient
};

/// Errors  shape_error for heads that a GPU does not compute.
attention_workspace attention_workspace_on(device_kind where, const attention_shape& a);

/// Causal scaled dot-product attention: row i of a head is the sum over j <= i of p(i, j) value j, where p(i,
/// .) is the softmax of query i . key j / sqrt(head_width).
///
/// On a GPU the operands may be bfloat16, and then the result may be. Weights of values are rounded to it as
/// well before they multiply anything; sums are float32.
/// Source  Vaswani et al., "Attention Is All You Need", NIPS 2017, equation 1, with the mask of its section
///         3.2.3. Differs: most of what the mask hides is not computed. A GPU goes over the keys once, as
///         cuda/attention_tile.hpp says.
/// Shapes  qkv: float32[batch, window, 3, heads, head_width]: queries, keys, values; y: [batch, window,
///         heads, head_width]; kept: on the host the probabilities, [batch, heads, window, window], zeros
///         above the diagonal; on a GPU the logarithm of the sum of each row's exponentials, [batch, heads,
///         window]; scratch: as attention_workspace has it, 64-byte aligned; null if that is nothing.
/// Errors  shape_error for heads that a GPU does not compute; device_error for bfloat16 on the host, which
///         has no such products.
void causal_attention(const stream& s, const attention_shape& a, read_numbers qkv, written_numbers y,
                      float* kept, void* scratch);

/// Computes the gradient with respect to qkv from dy, the gradient with respect to y.
///
/// Shapes  as causal_attention; dqkv as qkv. dy is bfloat16 if qkv is; then y and dqkv may be.
/// Errors  as causal_attention.
void causal_attention_gradient(const stream& s, const attention_shape& a, read_numbers qkv, read_numbers y,
                               const float* kept, read_numbers dy, written_numbers dqkv, void* scratch);

} // namespace mailgrad
