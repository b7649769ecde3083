#include <mailgrad/kernels/cuda/accumulate.hpp>
#include <mailgrad/kernels/cuda/distance.hpp>
#include <mailgrad/kernels/cuda/dropout.hpp>
#include <mailgrad/kernels/cuda/elementwise.hpp>
#include <mailgrad/kernels/cuda/strided_copy.hpp>

#include <mailgrad/tensor/require_host.hpp>

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

} // namespace mailgrad::cuda
