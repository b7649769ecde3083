#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace mailgrad {

/// Throws std::invalid_argument, "dataset: " and `what`, unless it holds.
inline void require_dataset(bool holds, const std::string& what) {
  if (!holds) throw std::invalid_argument(fmt::format("dataset: {}", what));
}

} // namespace mailgrad
