#include <mailgrad/kernels/cuda/convolution.hpp>
#include <mailgrad/kernels/cuda/pooling.hpp>

#include <mailgrad/tensor/require_host.hpp>

namespace mailgrad::cuda {

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

} // namespace mailgrad::cuda
