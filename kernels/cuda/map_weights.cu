#include <mailgrad/kernels/cuda/map.hpp>
#include <mailgrad/kernels/map_weights.hpp>

namespace mailgrad::cuda {

void map_weights(const cuda_stream& s, const weight_function& f, std::span<const float* const> reads,
                 std::span<float* const> writes, std::size_t n) {
  std::visit([&](const auto& function) { map(s, "map_weights", function, reads, writes, n); }, f);
}

} // namespace mailgrad::cuda
