#pragma once

#include <mailgrad/net/ending.hpp>

#include <exception>
#include <stdexcept>
#include <string>

namespace mailgrad {

/// The exit codes of the tool.
struct exit_code {
  static constexpr int done = 0;      ///< also of a run that ended early because somebody asked for it
  static constexpr int failed = 1;    ///< a run that started went wrong, or a card failed
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

} // namespace mailgrad
