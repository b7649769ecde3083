#pragma once

#include <mailgrad/tensor/stream.hpp>

#include <string_view>

namespace mailgrad {

/// Errors  device_error that names the kernel, if `s` is a stream of a GPU. For kernels of the host alone.
void require_host(const stream& s, std::string_view kernel);

} // namespace mailgrad
