#pragma once

#include <cstdint>
#include <string>

namespace mailgrad {

/// What a run without workers has not trained: "the mini-batch that remains", "the 120 mini-batches that
/// remain".
inline std::string remaining_batches(std::uint64_t count) {
  return count == 1 ? "the mini-batch that remains"
                    : "the " + std::to_string(count) + " mini-batches that remain";
}

} // namespace mailgrad
