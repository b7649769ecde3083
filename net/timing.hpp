#pragma once

#include <algorithm>
#include <chrono>
#include <utility>

namespace mailgrad::net {

/// Time since some fixed moment, on one clock that is handed in.
using instant = std::chrono::nanoseconds;

constexpr double in_seconds(instant span) { return std::chrono::duration<double>(span).count(); }

/// Every time limit of a session, derived from one number that the server dictates.
class timing {
public:
  static constexpr std::chrono::milliseconds usual_heartbeat{250};
  static constexpr std::chrono::milliseconds least_heartbeat{10};
  static constexpr std::chrono::milliseconds most_heartbeat{60'000};

  constexpr timing() = default;
  constexpr explicit timing(std::chrono::milliseconds heartbeat) : heartbeat_(heartbeat) {}

  /// How often each side gives a sign of life.
  constexpr std::chrono::milliseconds heartbeat() const noexcept { return heartbeat_; }
  /// A peer of which no byte came for longer than this is dead: 1.5 s.
  constexpr instant silence() const noexcept { return 6 * heartbeat_; }
  /// The same of a peer that cannot be done without: a minute, or a little less for fast heartbeats. One that
  /// was stopped and goes on is then no loss. A process that dies closes its connections, which ends the
  /// session at once.
  constexpr instant patience() const noexcept {
    return std::max(silence(), std::min<instant>(240 * heartbeat_, std::chrono::minutes{1}));
  }
  /// From the connection to the whole session: 2 s.
  constexpr instant hello() const noexcept { return 8 * heartbeat_; }
  /// How long a side that has ended waits for its last frame to leave: 0.5 s.
  constexpr instant farewell() const noexcept { return 2 * heartbeat_; }

  friend bool operator==(const timing&, const timing&) = default;

private:
  std::chrono::milliseconds heartbeat_ = usual_heartbeat;
};

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

/// For how long a network's thread stays awake when nothing came: 50 us; nothing in a process that may use
/// one or two cores, where a thread that waits awake takes time from those that compute.
std::chrono::microseconds usual_spin();

} // namespace mailgrad::net
