#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace mailgrad {

/// How often something is done during a run: each so many steps, each so much time, or once an epoch. All
/// zero: never.
struct interval {
  std::uint64_t steps = 0; ///< mini-batches of all workers
  std::chrono::nanoseconds span{0};
  std::uint64_t epochs = 0;

  bool never() const noexcept { return steps == 0 && span.count() == 0 && epochs == 0; }
  friend bool operator==(const interval&, const interval&) = default;
};

/// Reads "500" (steps), "0.5s", "250ms", "10min", "2h" or "epoch".
/// Errors  std::invalid_argument, in one line that says what an interval looks like.
interval parse_interval(std::string_view text);

} // namespace mailgrad
