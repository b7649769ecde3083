#pragma once

#include <mailgrad/engine/account/training_progress.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>

namespace mailgrad {

/// Shows the progress of a run: a bar that redraws itself on a terminal, a line every few seconds elsewhere.
///
/// The bar and its figures always fit into one line of the terminal. On a narrower terminal the bar shrinks
/// first. Then these parts are left out, in this order: mean staleness, rate, bar, loss, time left.
class progress_display {
public:
  enum class style : std::uint8_t { bar, lines, none };

  progress_display(std::ostream& out, style how, std::uint64_t total_steps)
      : out_(out), style_(how), total_steps_(total_steps) {}

  void show(const training_progress& p);
  /// Ends the bar, so that the next output starts on a line of its own.
  void finish();

  /// `bar` if standard error is a terminal that moves its cursor, else `lines`.
  static style suitable_style();
  /// The width of the terminal on standard error, asked anew each time because users resize it.
  static std::size_t terminal_columns();

private:
  void show_bar(const training_progress& p);
  void show_line(const training_progress& p);

  std::ostream& out_;
  style style_;
  std::uint64_t total_steps_;
  std::optional<instant> last_line_;
  bool drawn_ = false;
};

/// "step 938 of 1876, 41.2 k samples/s, loss 0.4312, mean staleness 0.98, 12 s left"
std::string in_words(const training_progress& p, std::uint64_t total_steps);

} // namespace mailgrad
