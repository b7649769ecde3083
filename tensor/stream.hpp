#pragma once

#include <cstdint>
#include <variant>

namespace mailgrad {

/// Kernels run on the calling thread: each has finished when its call returns.
struct host_stream {};

/// Kernels are queued on a stream of a GPU: a call returns before its kernel has run.
struct cuda_stream {
  void* stream = nullptr; ///< cudaStream_t
  void* cublas = nullptr; ///< cublasHandle_t, bound to `stream`
  std::uint32_t device = 0;
};

/// Where a kernel runs. Each kernel takes its stream as the first argument.
using stream = std::variant<host_stream, cuda_stream>;

} // namespace mailgrad
