#pragma once

#include <mailgrad/net/ending.hpp>

#include <array>
#include <csignal>
#include <exception>
#include <stdexcept>
#include <string>

namespace mailgrad {

struct exit_code {
  static constexpr int done = 0;      ///< also of a run that ended early because somebody asked for it
  static constexpr int failed = 1;    ///< a run that started went wrong, or a GPU failed
  static constexpr int bad_input = 2; ///< options or files that cannot be used; nothing was trained
  static constexpr int differs = 3;   ///< a replay reached its end, with other parameters than recorded
  static constexpr int cut_short = 4; ///< a replay went as far as the recording of a killed run goes
  static constexpr int diverged = 5;  ///< the loss of a run is no finite number, or has grown to nonsense
  /// A signal ended the run early but in good order. The codes follow the shells: 130 for Ctrl-C, 143 for
  /// SIGTERM, 129 for SIGHUP.
  static constexpr int of_signal(int number) { return 128 + number; }
};

/// A signal ended the run before it had begun, so there is no report that could say so.
class ended_by_signal : public std::runtime_error {
public:
  ended_by_signal(int number, const std::string& words) : std::runtime_error(words), number_(number) {}
  int number() const noexcept { return number_; }

private:
  int number_;
};

/// That of the signal for ended_by_signal, done for a run that was called off before it had begun, bad_input
/// for errors that the user can correct (options, models, files, devices), failed for all others.
int exit_code_of(const std::exception& e);

/// That of a worker or a parameter host whose session ended so: done if its run needed it no longer. Where a
/// signal made it leave, the code is that of the signal.
int exit_code_of(const net::ending& e);

/// Records Ctrl-C (SIGINT), SIGTERM and a closed terminal (SIGHUP), so that a loop can ask for them. A second
/// signal of any of these kinds ends the process at once with a line that says what is lost. Signals
/// within a quarter of a second are one: `timeout` sends its signal to the process and to its group. A signal
/// that was ignored when the process began, as SIGHUP is under `nohup`, stays ignored.
///
/// Threads one object a process.
class interrupt {
public:
  /// `second` is what a second signal says, a literal.
  explicit interrupt(
      const char* second =
          "a second signal ends the run at once: its weights, report and other outputs are lost");
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

std::string signal_name(int number);

} // namespace mailgrad
