#include <mailgrad/cli/lab/sweep_progress.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace mailgrad {

namespace {

constexpr std::size_t bar_width = 24;

double share_done(const sweep_state& s) {
  return s.steps == 0 ? 1 : std::min(1.0, static_cast<double>(s.steps_done) / static_cast<double>(s.steps));
}

std::string seconds_in_words(double seconds) {
  if (seconds < 60) return fmt::format("{:.0f} s", seconds);
  if (seconds < 3600) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

} // namespace

std::string in_words(const sweep_state& s, double seconds) {
  std::string text = fmt::format("{} of {} cells", s.ended, s.cells);
  if (s.failed > 0) text += fmt::format(", {} diverged or failed", s.failed);
  const double share = share_done(s);
  if (s.ended < s.cells && share > 0)
    text += fmt::format(", {} left", seconds_in_words(seconds * (1 - share) / share));
  return text;
}

/// A run tells of none when it is planned, and nothing is shown before one is done.
void sweep_progress::add_steps(std::uint64_t steps) {
  if (steps == 0) return;
  const std::lock_guard guard(mutex_);
  state_.steps_done += steps;
  show(false);
}

void sweep_progress::add_cell(bool completed) {
  const std::lock_guard guard(mutex_);
  ++state_.ended;
  if (!completed) ++state_.failed;
  show(state_.ended == state_.cells);
}

void sweep_progress::show(bool now) {
  constexpr instant between_bars = std::chrono::milliseconds{200}, between_lines = std::chrono::seconds{2};
  if (style_ == progress_display::style::none) return;
  const bool bar = style_ == progress_display::style::bar;
  const instant time = time_.now() - begun_;
  if (!now && time - shown_ < (bar ? between_bars : between_lines)) return;
  shown_ = time;
  std::string text = in_words(state_, in_seconds(time));
  if (!bar) {
    out_ << text << std::endl;
    return;
  }
  const auto filled = static_cast<std::size_t>(share_done(state_) * bar_width);
  const std::string drawn = '[' + std::string(filled, '#') + std::string(bar_width - filled, ' ') + "] ";
  // Some terminals begin a new line after a letter in the last column.
  const std::size_t room = progress_display::terminal_columns() - 1;
  if (drawn.size() + text.size() <= room) text = drawn + text;
  out_ << "\r\033[K" << text.substr(0, room) << std::flush;
  drawn_ = true;
}

void sweep_progress::finish() {
  const std::lock_guard guard(mutex_);
  if (drawn_) out_ << '\n' << std::flush;
  drawn_ = false;
}

sweep_state sweep_progress::state() {
  const std::lock_guard guard(mutex_);
  return state_;
}

} // namespace mailgrad
