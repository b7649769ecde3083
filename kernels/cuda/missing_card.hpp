#pragma once

#include <optional>
#include <string>

namespace mailgrad::cuda {

/// What a machine without a usable card answers when it is asked for its cards.
struct missing_card {
  int driver = 0;        ///< the CUDA of its driver, 12040 for 12.4; 0: no driver could be opened
  int built_for = 0;     ///< that of this build
  bool too_old = false;  ///< the runtime says that the driver is
  std::string failure{}; ///< in the driver's words; empty if it only found no card
  std::optional<std::string> visible{}; ///< CUDA_VISIBLE_DEVICES, if it is set
};

/// Why there is no card, and what would bring one. One line.
std::string in_words(const missing_card& x);

/// "CUDA 12.4" of 12040.
std::string cuda_version_in_words(int version);

} // namespace mailgrad::cuda
