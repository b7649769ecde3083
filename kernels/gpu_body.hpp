#pragma once

#include <mailgrad/tensor/device.hpp>
#include <mailgrad/tensor/stream.hpp>

#include <memory>

namespace mailgrad {

class convolution_plan;   // kernels/convolution.hpp
struct convolution_shape; // likewise

namespace cuda {

/// What a kernel does on a GPU, by the function that programs call: a function of the same arguments behind
/// a stream of the GPU.
///
/// A source of kernels/cuda/ defines get() by MAILGRAD_GPU_BODY, and no_cuda.cpp in a build without CUDA, so
/// a kernel without a body does not link. The linker chooses, because tests put the simulated GPU in the
/// place of either. No key may be an overloaded name, which nvcc 13 does not pass on.
template <auto Kernel>
struct body;

template <class... Arguments, void (*Kernel)(const stream&, Arguments...)>
struct body<Kernel> {
  using function = void(const cuda_stream& s, Arguments... arguments);
  static function* get();
};

/// A pass of a convolution, by the function that plans it; the operands are those of convolution_plan::run().
template <std::unique_ptr<convolution_plan> (*Plan)(const convolution_shape&, device_kind)>
struct body<Plan> {
  using function = void(const cuda_stream& s, const convolution_shape& c, const float* left,
                        const float* right, float* result);
  static function* get();
};

} // namespace cuda

/// Runs the kernel if the stream is one of a GPU. Returns whether it is.
template <auto Kernel, class... Arguments>
bool on_gpu(const stream& s, const Arguments&... arguments) {
  const auto* const gpu = std::get_if<cuda_stream>(&s);
  if (gpu != nullptr) cuda::body<Kernel>::get()(*gpu, arguments...);
  return gpu != nullptr;
}

} // namespace mailgrad

/// In namespace mailgrad::cuda: the function of this name there is the body of the kernel of this name.
#define MAILGRAD_GPU_BODY(kernel) MAILGRAD_GPU_BODY_OF(kernel, kernel)
#define MAILGRAD_GPU_BODY_OF(kernel, function_of_gpu)                                                        \
  template <>                                                                                                \
  body<mailgrad::kernel>::function* body<mailgrad::kernel>::get() {                                          \
    return function_of_gpu;                                                                                  \
  }
