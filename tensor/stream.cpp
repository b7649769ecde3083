#include <mailgrad/tensor/stream.hpp>

#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

namespace mailgrad {

void require_host(const stream& s, std::string_view kernel) {
  if (const auto* gpu = std::get_if<cuda_stream>(&s)) refuse_gpu(*gpu, kernel);
}

const cuda_stream& require_gpu(const stream& s, std::string_view kernel) {
  if (const auto* gpu = std::get_if<cuda_stream>(&s)) return *gpu;
  throw device_error(world_errc::no_such_device,
                     fmt::format("{}: the host computes nothing in bfloat16", kernel));
}

void refuse_gpu(const cuda_stream& s, std::string_view kernel) {
  throw device_error(
      world_errc::no_such_device,
      fmt::format("{}: cuda:{} asked for, but this build has no CUDA version of it", kernel, s.device));
}

} // namespace mailgrad
