#include <mailgrad/kernels/cuda/no_cuda.hpp>

#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

namespace mailgrad {

void require_host(const stream& s, std::string_view kernel) {
  if (const auto* gpu = std::get_if<cuda_stream>(&s))
    throw device_error(
        world_errc::no_such_device,
        fmt::format("{}: cuda:{} asked for, but this build has no CUDA version of it", kernel, gpu->device));
}

} // namespace mailgrad
