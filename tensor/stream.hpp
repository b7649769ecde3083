#pragma once

#include <cstdint>
#include <variant>

namespace mailgrad {

/// Work on the calling thread: every kernel has finished when its call returns.
struct host_stream {};

/// Work queued on a stream of a GPU: a kernel's call returns before it has run.
struct cuda_stream {
  void* stream = nullptr; ///< cudaStream_t
  void* cublas = nullptr; ///< cublasHandle_t, bound to `stream`
  std::uint32_t device = 0;
};

/// Where a kernel runs: the first argument of each of them.
using stream = std::variant<host_stream, cuda_stream>;

} // namespace mailgrad
