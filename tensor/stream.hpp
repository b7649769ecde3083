#pragma once

#include <cstdint>
#include <string_view>
#include <variant>

namespace mailgrad {
namespace cuda {

class products;       // kernels/cuda/products.hpp
struct stream_status; // kernels/cuda/stream_status.hpp

} // namespace cuda

/// Kernels run on the calling thread: each has finished when its call returns.
struct host_stream {};

/// Kernels are queued on a stream of a GPU: a call returns before its kernel has run.
///
/// A cuda::gpu_queue makes one and owns what it points to.
struct cuda_stream {
  void* stream = nullptr;                ///< cudaStream_t
  cuda::products* products = nullptr;    ///< computes the matrix products of this stream
  cuda::stream_status* status = nullptr; ///< on the GPU: the step's number, and what a kernel found wrong
  void* scratch = nullptr; ///< on the GPU: memory that each kernel of this stream may use while it runs
  std::size_t scratch_bytes = 0;
  std::uint32_t device = 0;
  /// Kernels number so many elements in 32 bits. More are numbered in 64, or computed in parts; a test sets
  /// it to a small number to see that they are.
  std::size_t most_in_32_bits = (std::size_t{1} << 31) - 1;
  std::uint32_t operation = 0; ///< the number of the operation under way, which a fault names
};

/// Where a kernel runs. Each kernel takes its stream as the first argument.
///
/// Errors  device_error from every kernel for a stream of a GPU in a build without CUDA.
using stream = std::variant<host_stream, cuda_stream>;

/// Refuses a stream of a GPU, for kernels that run only on the host.
///
/// Errors  device_error that names the kernel, if `s` is a stream of a GPU.
void require_host(const stream& s, std::string_view kernel);

/// The GPU's stream, for kernels in bfloat16, of which the host has none.
///
/// Errors  device_error that names the kernel, if `s` is a stream of the host.
const cuda_stream& require_gpu(const stream& s, std::string_view kernel);

/// What a build without CUDA answers to a kernel on a GPU.
///
/// Errors  always device_error, which names the kernel.
[[noreturn]] void refuse_gpu(const cuda_stream& s, std::string_view kernel);

} // namespace mailgrad
