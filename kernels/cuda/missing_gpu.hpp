#pragma once

#include <optional>
#include <string>

namespace mailgrad::cuda {

/// What a machine without a usable GPU answers when it is asked for its GPUs.
struct missing_gpu {
  int driver = 0;        ///< the CUDA of its driver, 12040 for 12.4; 0: no driver could be opened
  int built_for = 0;     ///< that of this build
  bool too_old = false;  ///< the runtime says that the driver is
  std::string failure{}; ///< in the driver's words; empty if it only found no GPU
  std::optional<std::string> visible{}; ///< CUDA_VISIBLE_DEVICES, if it is set
};

/// Why there is no GPU, and what would bring one. One line.
std::string in_words(const missing_gpu& x);

/// "CUDA 12.4" of 12040.
std::string format_cuda_version(int version);

} // namespace mailgrad::cuda
