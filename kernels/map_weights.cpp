#include <mailgrad/kernels/map_weights.hpp>

#include <mailgrad/kernels/cuda/map_weights.hpp>
#include <mailgrad/kernels/host/map_weights.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

namespace mailgrad {

namespace {

void require_arrays(const char* what, std::size_t found, std::size_t expected) {
  if (found != expected)
    throw shape_error(
        fmt::format("map_weights: {} arrays to {}, where the function takes {}", found, what, expected));
}

} // namespace

void map_weights(const stream& s, const weight_function& f, std::span<const float* const> reads,
                 std::span<float* const> writes, std::size_t n) {
  std::visit(
      [&]<class F>(const F&) {
        require_arrays("read", reads.size(), F::reads);
        require_arrays("write", writes.size(), F::writes);
      },
      f);
  if (const auto* gpu = std::get_if<cuda_stream>(&s)) return cuda::map_weights(*gpu, f, reads, writes, n);
  host::map_weights(f, reads, writes, n);
}

} // namespace mailgrad
