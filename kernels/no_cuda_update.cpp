#include <mailgrad/kernels/cuda/update.hpp>

#include <mailgrad/kernels/no_cuda.hpp>

namespace mailgrad::cuda {

void update(const cuda_stream& s, const update_rule&, const weight_penalty&, const weight_update&,
            std::span<float* const>) {
  require_host(s, "update");
}

} // namespace mailgrad::cuda
