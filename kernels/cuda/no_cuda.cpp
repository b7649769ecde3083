#include <mailgrad/kernels/attention.hpp>
#include <mailgrad/kernels/convolution.hpp>
#include <mailgrad/kernels/copy.hpp>
#include <mailgrad/kernels/cuda/lane_words.hpp>
#include <mailgrad/kernels/elementwise.hpp>
#include <mailgrad/kernels/gather.hpp>
#include <mailgrad/kernels/gemm.hpp>
#include <mailgrad/kernels/layer_norm.hpp>
#include <mailgrad/kernels/pooling.hpp>
#include <mailgrad/kernels/reduce.hpp>
#include <mailgrad/kernels/softmax.hpp>
#include <mailgrad/kernels/update.hpp>
#include <mailgrad/kernels/vectors.hpp>
#include <mailgrad/tensor/stream.hpp>

namespace mailgrad::cuda {

void elementwise(const cuda_stream& s, const elementwise_chain&, std::span<const void* const>,
                 std::span<void* const>, std::size_t) {
  refuse_card(s, "elementwise");
}

void broadcast(const cuda_stream& s, elementwise_function, const broadcast_plan&, const float*, const float*,
               float*) {
  refuse_card(s, "broadcast");
}

void bias_relu_gradient(const cuda_stream& s, const float*, const float*, float*, float*, std::size_t,
                        std::size_t) {
  refuse_card(s, "bias_relu_gradient");
}

void fill(const cuda_stream& s, float, std::span<float>) { refuse_card(s, "fill"); }

void begin_sum(const cuda_stream& s, float, std::span<const float>, std::span<float>) {
  refuse_card(s, "begin_sum");
}

void add_to_sum(const cuda_stream& s, float, std::span<const float>, std::span<float>) {
  refuse_card(s, "add_to_sum");
}

void scale_in_place(const cuda_stream& s, float, std::span<float>) { refuse_card(s, "scale_in_place"); }

void inner_product(const cuda_stream& s, std::span<const float>, std::span<const float>, double*) {
  refuse_card(s, "inner_product");
}

void squared_distance(const cuda_stream& s, std::span<const float>, std::span<const float>, double*) {
  refuse_card(s, "squared_distance");
}

void dropout(const cuda_stream& s, const dropout_draw&, const float*, float*, std::size_t) {
  refuse_card(s, "dropout");
}

void copy_box(const cuda_stream& s, std::span<const copied_axis>, const float*, float*) {
  refuse_card(s, "strided_copy");
}

void convolution(const cuda_stream& s, const convolution_shape&, const float*, const float*, float*) {
  refuse_card(s, "convolution");
}

void convolution_data_gradient(const cuda_stream& s, const convolution_shape&, const float*, const float*,
                               float*) {
  refuse_card(s, "convolution_data_gradient");
}

void convolution_weight_gradient(const cuda_stream& s, const convolution_shape&, const float*, const float*,
                                 float*) {
  refuse_card(s, "convolution_weight_gradient");
}

void clear(const cuda_stream& s, float*, std::size_t) { refuse_card(s, "convolution"); }

void max_pool(const cuda_stream& s, const window_grid&, const float*, float*, std::int32_t*) {
  refuse_card(s, "max_pool");
}

void max_pool_gradient(const cuda_stream& s, const window_grid&, const float*, const std::int32_t*, float*) {
  refuse_card(s, "max_pool_gradient");
}

void average_pool(const cuda_stream& s, const window_grid&, const float*, float*) {
  refuse_card(s, "average_pool");
}

void average_pool_gradient(const cuda_stream& s, const window_grid&, const float*, float*) {
  refuse_card(s, "average_pool_gradient");
}

void gemm(const cuda_stream& s, const gemm_shape&, const float*, const float*, float*, const gemm_epilogue&) {
  refuse_card(s, "gemm");
}

void round_floats(const cuda_stream& s, std::span<const float>, bfloat16*) { refuse_card(s, "round_floats"); }

void widen_floats(const cuda_stream& s, std::span<const bfloat16>, float*) { refuse_card(s, "widen_floats"); }

void gemm(const cuda_stream& s, const gemm_shape&, const bfloat16*, const bfloat16*, float*,
          const gemm_epilogue&) {
  refuse_card(s, "gemm");
}

void gemm(const cuda_stream& s, const gemm_shape&, const bfloat16*, const bfloat16*, bfloat16*,
          const bfloat16*) {
  refuse_card(s, "gemm");
}

void causal_attention(const cuda_stream& s, const attention_shape&, const bfloat16*, written_numbers,
                      float*) {
  refuse_card(s, "causal_attention");
}

void causal_attention_gradient(const cuda_stream& s, const attention_shape&, const bfloat16*, read_numbers,
                               const float*, const bfloat16*, written_numbers, void*) {
  refuse_card(s, "causal_attention_gradient");
}

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

void copy_rows(const cuda_stream& s, std::span<const row_copy>) { refuse_card(s, "copy_rows"); }

void gather(const cuda_stream& s, std::span<const float>, std::size_t, std::span<const std::int32_t>,
            float*) {
  refuse_card(s, "gather");
}

void scatter_rows(const cuda_stream& s, std::span<const std::int32_t>, const float*, std::size_t,
                  std::span<float>, void*) {
  refuse_card(s, "scatter_rows");
}

void gather_tables(const cuda_stream& s, std::span<const row_table>, std::size_t,
                   std::span<const std::int32_t>, float*) {
  refuse_card(s, "gather_tables");
}

void gather_tables_gradient(const cuda_stream& s, std::span<const std::int32_t>, const float*, std::size_t,
                            std::span<const table_gradient>) {
  refuse_card(s, "gather_tables_gradient");
}

void pairwise_dots(const cuda_stream& s, const vector_sets&, const float*, float*) {
  refuse_card(s, "pairwise_dots");
}

void pairwise_dots_gradient(const cuda_stream& s, const vector_sets&, const float*, const float*, float*) {
  refuse_card(s, "pairwise_dots_gradient");
}

void sparse_product(const cuda_stream& s, const compressed_rows&, std::span<const float>, std::size_t,
                    float*) {
  refuse_card(s, "sparse_product");
}

void sparse_product_gradient(const cuda_stream& s, const compressed_rows&, const float*, std::size_t,
                             float*) {
  refuse_card(s, "sparse_product_gradient");
}

void update(const cuda_stream& s, const update_rule&, const weight_penalty&, const weight_update&,
            std::span<float* const>) {
  refuse_card(s, "update");
}

void update_summed_rows(const cuda_stream& s, const update_rule&, const weight_penalty&,
                        const summed_row_update&, std::span<float* const>) {
  refuse_card(s, "update_summed_rows");
}

void begin_update(const cuda_stream& s, const update_rule&, const weight_penalty&) {
  refuse_card(s, "begin_update");
}

void update_as_begun(const cuda_stream& s, const update_rule&, const weight_update&,
                     std::span<float* const>) {
  refuse_card(s, "update");
}

void write_record(const cuda_stream& s, const float*, const double*, step_record*) {
  refuse_card(s, "write_record");
}

void map_weights(const cuda_stream& s, const weight_function&, std::span<const float* const>,
                 std::span<float* const>, std::size_t) {
  refuse_card(s, "map_weights");
}

} // namespace mailgrad::cuda
