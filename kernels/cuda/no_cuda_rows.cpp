#include <mailgrad/kernels/cuda/attention.hpp>
#include <mailgrad/kernels/cuda/bias_gelu.hpp>
#include <mailgrad/kernels/cuda/cross_entropy.hpp>
#include <mailgrad/kernels/cuda/layer_norm.hpp>
#include <mailgrad/kernels/cuda/reduce.hpp>
#include <mailgrad/kernels/cuda/right_labels.hpp>
#include <mailgrad/kernels/cuda/softmax.hpp>

#include <mailgrad/tensor/require_host.hpp>

namespace mailgrad::cuda {

void sum(const cuda_stream& s, const sum_plan&, read_numbers, float, float*) { refuse_card(s, "sum"); }

void mean_squared_difference(const cuda_stream& s, const float*, const float*, std::size_t, float*) {
  refuse_card(s, "mean_squared_difference");
}

void softmax(const cuda_stream& s, const float*, float*, std::size_t, std::size_t) {
  refuse_card(s, "softmax");
}

void softmax_gradient(const cuda_stream& s, const float*, const float*, float*, std::size_t, std::size_t) {
  refuse_card(s, "softmax_gradient");
}

void cross_entropy(const cuda_stream& s, const float*, const std::int32_t*, float*, float*, std::size_t,
                   std::size_t) {
  refuse_card(s, "cross_entropy");
}

void cross_entropy_gradient(const cuda_stream& s, const float*, const std::int32_t*, const float*, float*,
                            std::size_t, std::size_t) {
  refuse_card(s, "cross_entropy_gradient");
}

void bias_gelu(const cuda_stream& s, read_numbers, const float*, written_numbers, written_numbers,
               std::size_t, std::size_t) {
  refuse_card(s, "bias_gelu");
}

void bias_gelu_gradient(const cuda_stream& s, read_numbers, read_numbers, written_numbers, float*,
                        std::size_t, std::size_t) {
  refuse_card(s, "bias_gelu_gradient");
}

void causal_attention(const cuda_stream& s, const attention_shape&, const float*, float*, float*) {
  refuse_card(s, "causal_attention");
}

void causal_attention_gradient(const cuda_stream& s, const attention_shape&, const float*, const float*,
                               const float*, const float*, float*, void*) {
  refuse_card(s, "causal_attention_gradient");
}

void layer_norm(const cuda_stream& s, const layer_norm_rows&, const float*, const float*, const float*,
                written_numbers, float*, float*) {
  refuse_card(s, "layer_norm");
}

void layer_norm_gradient(const cuda_stream& s, const layer_norm_rows&, const float*, const float*,
                         const float*, const float*, read_numbers, float*, float*, float*) {
  refuse_card(s, "layer_norm_gradient");
}

void count_right_labels(const cuda_stream& s, const float*, const std::int32_t*, std::int32_t*, std::size_t,
                        std::size_t) {
  refuse_card(s, "count_right_labels");
}

} // namespace mailgrad::cuda
