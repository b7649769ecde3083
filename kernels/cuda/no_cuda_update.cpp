#include <mailgrad/kernels/cuda/map_weights.hpp>
#include <mailgrad/kernels/cuda/update.hpp>

#include <mailgrad/kernels/cuda/no_cuda.hpp>

namespace mailgrad::cuda {

void update(const cuda_stream& s, const update_rule&, const weight_penalty&, const weight_update&,
            std::span<float* const>) {
  require_host(s, "update");
}

void map_weights(const cuda_stream& s, const weight_function&, std::span<const float* const>,
                 std::span<float* const>, std::size_t) {
  require_host(s, "map_weights");
}

} // namespace mailgrad::cuda
