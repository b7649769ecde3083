#pragma once

#include <chrono>

namespace mailgrad {

/// Time since some fixed moment, the same for every actor of a run.
using instant = std::chrono::nanoseconds;

/// A moment by the calendar.
using calendar_time = std::chrono::system_clock::time_point;

/// The clock of the actors, passed in so that a test can control the time.
/// Threads any.
class time_source {
public:
  virtual ~time_source() = default;
  virtual instant now() const noexcept = 0;
  /// The date of this moment, for files that other programs read; that of a clock without a calendar is 1970.
  virtual calendar_time date() const noexcept { return {}; }
};

/// The monotonic clock of this machine, and its calendar.
class machine_time final : public time_source {
public:
  instant now() const noexcept override { return std::chrono::steady_clock::now().time_since_epoch(); }
  calendar_time date() const noexcept override { return std::chrono::system_clock::now(); }
};

inline double in_seconds(instant span) noexcept { return std::chrono::duration<double>(span).count(); }

} // namespace mailgrad
