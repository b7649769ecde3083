#include <mailgrad/kernels/cuda/missing_gpu.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace mailgrad::cuda {

std::string format_cuda_version(int version) {
  return fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10);
}

std::string in_words(const missing_gpu& x) {
  const int needed = x.built_for / 1000 * 1000; // a driver for 13.0 runs what was built with 13.2
  if (x.driver == 0)
    return fmt::format("no NVIDIA driver could be opened (libcuda.so.1); this build needs one for {}",
                       format_cuda_version(needed));
  if (x.driver < needed)
    return fmt::format("the driver is for {}, and this build needs one for {}", format_cuda_version(x.driver),
                       format_cuda_version(needed));
  if (x.too_old)
    return fmt::format("the driver is for {}, which the runtime of {} in this build finds too old",
                       format_cuda_version(x.driver), format_cuda_version(x.built_for));
  if (!x.failure.empty())
    return fmt::format("the driver for {} says: {}", format_cuda_version(x.driver), x.failure);
  std::string none = fmt::format("the driver for {} finds no GPU", format_cuda_version(x.driver));
  if (!x.visible) return none;
  std::string visible = *x.visible;
  std::ranges::replace(visible, '\n', ' ');
  return fmt::format("{} among those that CUDA_VISIBLE_DEVICES names: '{}'", none, visible);
}

} // namespace mailgrad::cuda
