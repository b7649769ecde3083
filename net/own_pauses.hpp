#pragma once

#include <mailgrad/net/timing.hpp>

#include <utility>

namespace mailgrad::net {

/// Finds the times for which this process itself stood still: it was stopped, or got no processor. It has
/// heard nobody meanwhile, and nobody was silent.
///
/// To be asked each heartbeat, or else a long time between two questions looks like a pause.
/// Threads one caller at a time.
class own_pauses {
public:
  explicit own_pauses(instant now) noexcept : asked_(now) {}

  /// How long it stood still since the last question; 0: not at all.
  instant found(instant now, const timing& times) noexcept {
    const instant gap = now - std::exchange(asked_, now);
    return gap > 2 * times.heartbeat() ? gap : instant{0};
  }
  /// When to ask again, at the latest.
  instant due(const timing& times) const noexcept { return asked_ + times.heartbeat(); }

private:
  instant asked_;
};

} // namespace mailgrad::net
