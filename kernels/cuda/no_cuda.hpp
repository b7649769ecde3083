#pragma once

#include <mailgrad/tensor/stream.hpp>

#include <string_view>

namespace mailgrad {

/// Refuses a stream of a GPU, for kernels that run only on the host.
///
/// Errors  device_error that names the kernel, if `s` is a stream of a GPU.
void require_host(const stream& s, std::string_view kernel);

} // namespace mailgrad
