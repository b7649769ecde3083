#pragma once

#include <mailgrad/engine/account/time_source.hpp>

#include <algorithm>
#include <optional>

namespace mailgrad {

/// Places the moments of a device's clock in the time of this process.
///
/// What a device tells is seen here after it was, so the clocks are at most as far apart as the quickest news
/// says. Durations of the device stay what they are.
/// Units   of both clocks nanoseconds. They may drift apart by 100 us a second.
class device_clock {
public:
  /// What ended by the device's clock `there` was seen here at `seen`. The calls come in the order of time.
  void see(instant there, instant seen) noexcept {
    const instant apart = seen - there;
    offset_ = offset_ ? std::min(apart, *offset_ + (seen - last_seen_) / drifts_one_in) : apart;
    last_seen_ = seen;
  }
  /// When that was by the clock of this process; after the first see().
  instant here(instant there) const noexcept { return there + offset_.value_or(instant{0}); }

private:
  static constexpr std::int64_t drifts_one_in = 10'000;

  std::optional<instant> offset_;
  instant last_seen_{0};
};

} // namespace mailgrad
