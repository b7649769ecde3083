#pragma once

#include <mailgrad/engine/account/time_source.hpp>
#include <mailgrad/options/interval.hpp>

#include <algorithm>
#include <cstdint>

namespace mailgrad {

/// Tells when an interval of a run is over.
class interval_clock {
public:
  interval_clock(const interval& every, std::uint64_t steps_per_epoch)
      : steps_(every.epochs > 0 ? every.epochs * std::max<std::uint64_t>(1, steps_per_epoch) : every.steps),
        span_(every.span), next_step_(steps_), next_time_(span_) {}

  /// Whether an interval has ended since the last call that said so. Several at once count as one.
  bool ended(std::uint64_t steps, instant elapsed) {
    if (steps_ > 0 && steps >= next_step_) {
      next_step_ = (steps / steps_ + 1) * steps_;
      return true;
    }
    if (span_.count() > 0 && elapsed >= next_time_) {
      next_time_ = (elapsed / span_ + 1) * span_;
      return true;
    }
    return false;
  }

private:
  std::uint64_t steps_;
  instant span_;
  std::uint64_t next_step_;
  instant next_time_;
};

} // namespace mailgrad
