#include <mailgrad/kernels/attention.hpp>

#include <mailgrad/kernels/cuda/attention.hpp>
#include <mailgrad/kernels/host/attention.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tensor/require_host.hpp>

#include <fmt/format.h>

namespace mailgrad {

namespace {

void require_head_of_card(const attention_shape& a) {
  if (a.head_width > widest_head_of_card)
    throw shape_error(fmt::format("heads of {} numbers; a card computes those of at most {}", a.head_width,
                                  widest_head_of_card));
}

} // namespace

attention_room attention_room_on(device_kind where, const attention_shape& a) {
  const std::size_t rows = a.batch * a.heads * a.window;
  if (where == device_kind::cpu)
    return {rows * a.window, host::attention_scratch_bytes(a), host::attention_gradient_scratch_bytes(a)};
  require_head_of_card(a);
  return {rows, 0, rows * sizeof(float)};
}

void causal_attention(const stream& s, const attention_shape& a, const float* qkv, float* y, float* kept,
                      void* scratch) {
  if (const auto* card = std::get_if<cuda_stream>(&s)) {
    require_head_of_card(a);
    return cuda::causal_attention(*card, a, qkv, y, kept);
  }
  host::causal_attention(a, qkv, y, kept, scratch);
}

void causal_attention_gradient(const stream& s, const attention_shape& a, const float* qkv, const float* y,
                               const float* kept, const float* dy, float* dqkv, void* scratch) {
  if (const auto* card = std::get_if<cuda_stream>(&s)) {
    require_head_of_card(a);
    return cuda::causal_attention_gradient(*card, a, qkv, y, kept, dy, dqkv, scratch);
  }
  host::causal_attention_gradient(a, qkv, kept, dy, dqkv, scratch);
}

void causal_attention(const stream& s, const attention_shape& a, const bfloat16* qkv, written_numbers y,
                      float* kept) {
  const cuda_stream& card = require_card(s, "causal_attention");
  require_head_of_card(a);
  cuda::causal_attention(card, a, qkv, y, kept);
}

void causal_attention_gradient(const stream& s, const attention_shape& a, const bfloat16* qkv, read_numbers y,
                               const float* kept, const bfloat16* dy, written_numbers dqkv, void* scratch) {
  const cuda_stream& card = require_card(s, "causal_attention_gradient");
  require_head_of_card(a);
  cuda::causal_attention_gradient(card, a, qkv, y, kept, dy, dqkv, scratch);
}

} // namespace mailgrad
