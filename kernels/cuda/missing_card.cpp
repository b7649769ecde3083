#include <mailgrad/kernels/cuda/missing_card.hpp>

#include <fmt/format.h>

namespace mailgrad::cuda {

std::string cuda_version_in_words(int version) {
  return fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10);
}

std::string in_words(const missing_card& x) {
  const int needed = x.built_for / 1000 * 1000; // a driver for 13.0 runs what was built with 13.2
  if (x.driver == 0)
    return fmt::format("no NVIDIA driver could be opened (libcuda.so.1); this build needs one for {}",
                       cuda_version_in_words(needed));
  if (x.too_old || x.driver < needed)
    return fmt::format("the driver is for {}, and this build needs one for {}",
                       cuda_version_in_words(x.driver), cuda_version_in_words(needed));
  if (!x.failure.empty())
    return fmt::format("the driver for {} says: {}", cuda_version_in_words(x.driver), x.failure);
  return fmt::format("the driver for {} finds no card{}", cuda_version_in_words(x.driver),
                     x.visible ? fmt::format(" among those that CUDA_VISIBLE_DEVICES names: '{}'", x.visible)
                               : "");
}

} // namespace mailgrad::cuda
