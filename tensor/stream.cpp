#include <mailgrad/tensor/fail_with.hpp>
#include <mailgrad/tensor/stream.hpp>

namespace mailgrad {

void require_host(const stream& s, std::string_view kernel) {
  if (const auto* gpu = std::get_if<cuda_stream>(&s)) refuse_gpu(*gpu, kernel);
}

const cuda_stream& require_gpu(const stream& s, std::string_view kernel) {
  if (const auto* gpu = std::get_if<cuda_stream>(&s)) return *gpu;
  fail_with(world_errc::no_such_device, "{}: the host computes nothing in bfloat16", kernel);
}

void refuse_gpu(const cuda_stream& s, std::string_view kernel) {
  fail_with(world_errc::no_such_device, "{}: cuda:{} asked for, but this build has no CUDA version of it",
            kernel, s.device);
}

} // namespace mailgrad
