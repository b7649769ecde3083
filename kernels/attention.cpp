#include <mailgrad/kernels/attention.hpp>

#include <mailgrad/kernels/cuda/attention.hpp>
#include <mailgrad/kernels/host/attention.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

namespace mailgrad {

namespace {

void require_head_of_card(const attention_shape& a) {
  if (a.head_width > widest_head_of_card)
    throw shape_error(fmt::format("heads of {} numbers; a card computes those of at most {}", a.head_width,
                                  widest_head_of_card));
}

const cuda_stream& card_of(const stream& s) {
  if (const auto* card = std::get_if<cuda_stream>(&s)) return *card;
  throw device_error(world_errc::no_such_device, "attention: the host computes no products of bfloat16");
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

void causal_attention(const stream& s, const attention_shape& a, const bfloat16* qkv, float* y, float* kept) {
  const cuda_stream& card = card_of(s);
  require_head_of_card(a);
  cuda::causal_attention(card, a, qkv, y, kept);
}

void causal_attention_gradient(const stream& s, const attention_shape& a, const bfloat16* qkv, const float* y,
                               const float* kept, const bfloat16* dy, float* dqkv, void* scratch) {
  const cuda_stream& card = card_of(s);
  require_head_of_card(a);
  cuda::causal_attention_gradient(card, a, qkv, y, kept, dy, dqkv, scratch);
}

} // namespace mailgrad
