#pragma once

#include <mailgrad/engine/account/training_progress.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace mailgrad {

/// Shows the progress of a run on standard error: a bar that redraws itself on a terminal that moves its
/// cursor, a line every few seconds elsewhere.
///
/// The bar and its figures always fit into one line of the terminal. On a narrower terminal the bar shrinks
/// first. Then these parts are left out, in this order: mean staleness, rate, bar, loss, time left.
class progress_display {
public:
  explicit progress_display(bool quiet, std::uint64_t total_steps = 0);

  void show(const training_progress& p);
  /// Ends the bar, so that the next output starts on a line of its own.
  void finish();

  /// In place of show(): redraws the bar with this line, or prints another line; nothing if quiet.
  void draw(const std::string& line);

  bool is_bar() const noexcept { return style_ == style::bar; }
  /// "[####    ] ", so many columns between the brackets.
  static std::string bar(double share, std::size_t columns);
  /// The width of the terminal on standard error, asked anew each time because users resize it.
  static std::size_t terminal_columns();
  /// The columns that a bar may fill: some terminals begin a new line after a letter in the last one.
  static std::size_t room_for_bar() { return terminal_columns() - 1; }

private:
  enum class style : std::uint8_t { bar, lines, none };

  const style style_;
  std::uint64_t total_steps_;
  std::optional<instant> last_line_;
  bool drawn_ = false;
};

} // namespace mailgrad
