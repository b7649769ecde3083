#pragma once

#include <mailgrad/tensor/stream.hpp>

#include <string_view>

namespace mailgrad {

/// Refuses a stream of a GPU, for kernels that run only on the host.
///
/// Errors  device_error that names the kernel, if `s` is a stream of a GPU.
void require_host(const stream& s, std::string_view kernel);

/// The card's stream, for kernels in bfloat16, of which the host has none.
///
/// Errors  device_error that names the kernel, if `s` is a stream of the host.
const cuda_stream& require_card(const stream& s, std::string_view kernel);

/// What a build without CUDA answers to a kernel on a GPU.
///
/// Errors  always device_error, which names the kernel.
[[noreturn]] void refuse_card(const cuda_stream& s, std::string_view kernel);

} // namespace mailgrad
