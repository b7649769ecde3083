#include <mailgrad/cli/progress_display.hpp>

#include <algorithm>
#include <cstdio>

#include <unistd.h>

namespace mailgrad {

namespace {

constexpr instant line_interval = std::chrono::seconds{2};
constexpr std::size_t bar_width = 24;

std::string samples_per_second(const training_progress& p) {
  const double elapsed = in_seconds(p.elapsed);
  const double rate = elapsed > 0 ? static_cast<double>(p.samples) / elapsed : 0;
  char text[48];
  std::snprintf(text, sizeof text, rate >= 1000 ? "%.1f k samples/s" : "%.0f samples/s",
                rate >= 1000 ? rate / 1000 : rate);
  return text;
}

double share_done(const training_progress& p, std::uint64_t total) {
  return total == 0 ? 0 : std::min(1.0, static_cast<double>(p.steps) / static_cast<double>(total));
}

} // namespace

std::string in_words(const training_progress& p, std::uint64_t total_steps) {
  char figures[96];
  std::snprintf(figures, sizeof figures, ", loss %.4f, mean staleness %.2f", p.loss, p.staleness_mean);
  return "step " + std::to_string(p.steps) + " of " + std::to_string(total_steps) + ", " +
         samples_per_second(p) + figures;
}

progress_display::style progress_display::suitable_style() {
  return isatty(STDERR_FILENO) != 0 ? style::bar : style::lines;
}

void progress_display::show(const training_progress& p) {
  if (style_ == style::none || p.steps == 0) return;
  style_ == style::bar ? show_bar(p) : show_line(p);
}

void progress_display::show_bar(const training_progress& p) {
  const auto filled = static_cast<std::size_t>(share_done(p, total_steps_) * bar_width);
  out_ << "\r\033[K[" << std::string(filled, '#') << std::string(bar_width - filled, ' ') << "] "
       << in_words(p, total_steps_) << std::flush;
  drawn_ = true;
}

void progress_display::show_line(const training_progress& p) {
  if (last_line_ && p.elapsed - *last_line_ < line_interval) return;
  last_line_ = p.elapsed;
  out_ << in_words(p, total_steps_) << std::endl;
}

void progress_display::finish() {
  if (drawn_) out_ << '\n' << std::flush;
  drawn_ = false;
}

} // namespace mailgrad
