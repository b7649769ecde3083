#include <mailgrad/kernels/no_cuda.hpp>

#include <mailgrad/tensor/error.hpp>

#include <string>

namespace mailgrad {

void require_host(const stream& s, std::string_view kernel) {
  if (const auto* gpu = std::get_if<cuda_stream>(&s))
    throw device_error(world_errc::no_such_device,
                       std::string(kernel) + ": cuda:" + std::to_string(gpu->device) +
                           " asked for, but this build has no CUDA version of it");
}

} // namespace mailgrad
