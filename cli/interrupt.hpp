#pragma once

#include <array>
#include <csignal>
#include <string>

namespace mailgrad {

/// Records Ctrl-C (SIGINT), SIGTERM and a closed terminal (SIGHUP), so that a loop can ask for them. A second
/// signal of any of these kinds ends the process at once with a line that says what is lost. Signals
/// within a quarter of a second are one: `timeout` sends its signal to the process and to its group. A signal
/// that was ignored when the process began, as SIGHUP is under `nohup`, stays ignored.
///
/// Threads one object a process.
class interrupt {
public:
  /// `second` is what a second signal says, a literal.
  explicit interrupt(const char* second =
                         "a second signal ends the run at once: its weights, report and other "
                         "outputs are lost");
  ~interrupt();
  interrupt(const interrupt&) = delete;
  interrupt& operator=(const interrupt&) = delete;

  /// The number of the first signal; 0 if there was none.
  int signal() const noexcept;
  bool requested() const noexcept { return signal() != 0; }

private:
  static constexpr std::array caught_{SIGINT, SIGTERM, SIGHUP};

  std::array<struct sigaction, caught_.size()> before_{};
};

/// "SIGTERM"
std::string signal_name(int number);

} // namespace mailgrad
