#pragma once

#include <chrono>

namespace mailgrad {

/// Time since some fixed moment, the same for every actor of a run.
using instant = std::chrono::nanoseconds;

/// The clock of the actors, passed in so that a test can control the time.
///
/// Threads any.
class time_source {
public:
  virtual ~time_source() = default;
  virtual instant now() const noexcept = 0;
};

/// The monotonic clock of this machine.
class machine_time final : public time_source {
public:
  instant now() const noexcept override { return std::chrono::steady_clock::now().time_since_epoch(); }
};

inline double in_seconds(instant span) noexcept { return std::chrono::duration<double>(span).count(); }

} // namespace mailgrad
