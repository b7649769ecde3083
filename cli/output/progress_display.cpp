#include <mailgrad/cli/output/progress_display.hpp>

#include <mailgrad/engine/account/early_stop.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <iostream>
#include <string_view>

#include <sys/ioctl.h>
#include <unistd.h>

namespace mailgrad {

namespace {

constexpr instant line_interval = std::chrono::seconds{2};
constexpr std::size_t widest_bar = 24;
constexpr std::size_t narrowest_bar = 8;
constexpr std::size_t bar_frame = 3; // "[] "

std::string samples_per_second(const training_progress& p) {
  const double elapsed = in_seconds(p.elapsed);
  const double rate = elapsed > 0 ? static_cast<double>(p.samples) / elapsed : 0;
  return rate >= 1000 ? fmt::format("{:.1f} k samples/s", rate / 1000)
                      : fmt::format("{:.0f} samples/s", rate);
}

double share_done(const training_progress& p, std::uint64_t total) {
  return total == 0 ? 0 : std::min(1.0, static_cast<double>(p.steps) / static_cast<double>(total));
}

/// "12 s left", "3 min 05 s left", "2 h 40 min left" or "5 days left", at the average pace of this process.
std::string time_left(const training_progress& p, std::uint64_t total) {
  const auto done = static_cast<double>(p.steps - std::min(p.steps, p.before));
  const double seconds = in_seconds(p.elapsed) * static_cast<double>(total - p.steps) / done;
  if (seconds < 60) return fmt::format("{:.0f} s left", seconds);
  if (!(seconds < 48 * 3600)) return fmt::format("{:.0f} days left", seconds / (24 * 3600));
  const int whole = static_cast<int>(seconds);
  if (whole < 3600) return fmt::format("{} min {:02} s left", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min left", whole / 3600, whole / 60 % 60);
}

/// The parts of a line, in their order; a part that is left out is empty.
struct line_fields {
  std::string step;
  std::string rate;
  std::string loss;
  std::string staleness;
  std::string left;

  std::string joined() const { return step + rate + loss + staleness + left; }
};

line_fields fields_of(const training_progress& p, std::uint64_t total) {
  return {fmt::format("step {} of {}", p.steps, total), ", " + samples_per_second(p),
          ", loss " + format_loss(p.loss), fmt::format(", mean staleness {:.2f}", p.staleness_mean),
          p.steps < total ? ", " + time_left(p, total) : ""};
}

std::string fitted_line(const training_progress& p, std::uint64_t total, std::size_t width) {
  line_fields fields = fields_of(p, total);
  const auto room = [&] { return width - std::min(width, fields.joined().size()); };
  for (std::string* field : {&fields.staleness, &fields.rate})
    if (room() < narrowest_bar + bar_frame) field->clear();
  if (const std::size_t left = room(); left >= narrowest_bar + bar_frame)
    return progress_display::bar(share_done(p, total), std::min(left - bar_frame, widest_bar)) +
           fields.joined();
  for (std::string* field : {&fields.loss, &fields.left})
    if (fields.joined().size() > width) field->clear();
  return fields.joined().substr(0, width);
}

} // namespace

progress_display::progress_display(bool quiet, std::uint64_t total_steps)
    : style_([quiet] {
        if (quiet) return style::none;
        const char* terminal = std::getenv("TERM");
        const bool moves_cursor = terminal == nullptr || std::string_view(terminal) != "dumb";
        return isatty(STDERR_FILENO) != 0 && moves_cursor ? style::bar : style::lines;
      }()),
      total_steps_(total_steps) {}

std::string progress_display::bar(double share, std::size_t columns) {
  const auto filled = static_cast<std::size_t>(share * static_cast<double>(columns));
  return '[' + std::string(filled, '#') + std::string(columns - filled, ' ') + "] ";
}

std::size_t progress_display::terminal_columns() {
  constexpr std::size_t usual = 80;
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const char* variable = std::getenv("COLUMNS");
  const std::string_view text = variable == nullptr ? "" : variable;
  std::size_t columns = 0;
  std::from_chars(text.data(), text.data() + text.size(), columns);
  return columns > 0 ? columns : usual;
}

void progress_display::show(const training_progress& p) {
  if (style_ == style::none || p.steps <= p.before) return;
  if (is_bar()) return draw(fitted_line(p, total_steps_, room_for_bar()));
  if (last_line_ && p.elapsed - *last_line_ < line_interval) return;
  last_line_ = p.elapsed;
  draw(fields_of(p, total_steps_).joined());
}

void progress_display::draw(const std::string& line) {
  drawn_ = is_bar();
  if (drawn_) std::cerr << "\r\033[K" << line << std::flush;
  if (style_ == style::lines) std::cerr << line << std::endl;
}

void progress_display::finish() {
  if (drawn_) std::cerr << '\n' << std::flush;
  drawn_ = false;
}

} // namespace mailgrad
