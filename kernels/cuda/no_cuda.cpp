#include <mailgrad/tensor/require_host.hpp>

#include <mailgrad/kernels/cuda/elementwise.hpp>
#include <mailgrad/kernels/cuda/gemm.hpp>

// These functions take the place of the CUDA kernels in a build without them.
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

void gemm(const cuda_stream& s, const gemm_shape&, const float*, const float*, float*, const gemm_epilogue&) {
  refuse_card(s, "gemm");
}

} // namespace mailgrad::cuda
