#pragma once

#include <mailgrad/tensor/error.hpp>

#include <cuda_runtime_api.h>

#include <string>

namespace mailgrad::cuda {

/// Errors  device_error with the driver's message, unless `code` is success.
inline void check(cudaError_t code, const char* what) {
  if (code != cudaSuccess)
    throw device_error(world_errc::device_failure, std::string(what) + ": " + cudaGetErrorString(code));
}

} // namespace mailgrad::cuda

/// Stands after each launch of a kernel and around each call of the CUDA runtime.
#define MAILGRAD_CUDA_CHECK(call) ::mailgrad::cuda::check((call), #call)
