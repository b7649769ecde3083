#pragma once

#include <mailgrad/tensor/stream.hpp>

#include <string_view>

namespace mailgrad {

/// Refuses a stream of a GPU, for kernels that run only on the host.
///
/// Errors  device_error that names the kernel, if `s` is a stream of a GPU.
void require_host(const stream& s, std::string_view kernel);

/// What a build without CUDA answers to a kernel on a GPU.
///
/// Errors  always device_error, which names the kernel.
[[noreturn]] void refuse_card(const cuda_stream& s, std::string_view kernel);

} // namespace mailgrad
