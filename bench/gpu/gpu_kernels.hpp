#pragma once

#include "gpu_timing.hpp"

#include <cstddef>
#include <stdexcept>
#include <vector>

namespace mailgrad::bench {

/// What a kernel throws that cannot be measured here; it says why.
struct left_out : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What sizes are divided by: 1, or more in a trial of the program.
inline std::size_t divisor = 1;

inline std::size_t floats_of(std::size_t mebibytes) { return (mebibytes << 20) / sizeof(float) / divisor; }

inline double float_bytes(std::size_t n, std::size_t arrays) {
  return static_cast<double>(n * arrays * sizeof(float));
}

/// Kernels that work on matrices have rows of so many elements, and as many rows as 64 MiB hold.
inline constexpr std::size_t columns = 512;
inline std::size_t row_count() { return floats_of(64) / columns; }

/// Makes a kernel's operands when its turn comes, so that those of all need not be there at once.
using kernel_maker = timed_kernel (*)(gpu_arrays&);

std::vector<kernel_maker> element_kernels(); ///< copies, updates, element-wise functions
std::vector<kernel_maker> row_kernels();     ///< sums, softmax, losses, pooling
std::vector<kernel_maker> model_kernels();   ///< attention and what else gpt and dlrm need
std::vector<kernel_maker> product_kernels(); ///< matrix products, and the convolutions of LeNet

} // namespace mailgrad::bench
