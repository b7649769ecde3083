#pragma once

#include <array>
#include <csignal>
#include <string>

namespace mailgrad {

/// Turns Ctrl-C (SIGINT), a polite kill (SIGTERM) and a terminal that is closed (SIGHUP) into a question that
/// a loop can ask. A second signal, of whichever of these kinds, ends the process at once and says what is
/// lost. A signal that was ignored when the process began, as `nohup` has SIGHUP, stays ignored.
///
/// Threads one object a process.
class interrupt {
public:
  interrupt();
  ~interrupt();
  interrupt(const interrupt&) = delete;
  interrupt& operator=(const interrupt&) = delete;

  /// The number of the first signal; 0 before it.
  int signal() const noexcept;
  bool requested() const noexcept { return signal() != 0; }

private:
  static constexpr std::array caught_{SIGINT, SIGTERM, SIGHUP};

  std::array<struct sigaction, caught_.size()> before_{};
};

/// "SIGTERM"
std::string signal_name(int number);

} // namespace mailgrad
