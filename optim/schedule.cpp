#include <mailgrad/optim/schedule.hpp>
#include <mailgrad/options/settings.hpp>
#include <mailgrad/options/spelling.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <stdexcept>

namespace mailgrad {

namespace {

double factor(const constant_schedule&, std::uint64_t, std::uint64_t) { return 1; }
double factor(const step_schedule& s, std::uint64_t t, std::uint64_t) {
  const std::uint64_t falls = t / s.every;
  return std::pow(s.factor, static_cast<double>(falls));
}
double factor(const cosine_schedule& s, std::uint64_t t, std::uint64_t warmup) {
  const auto span = static_cast<double>(s.total - warmup);
  const double done = std::min(1.0, static_cast<double>(t) / span);
  return s.final + (1 - s.final) * (1 + std::cos(std::numbers::pi * done)) / 2;
}

/// The last t with a factor above 0.
std::optional<std::uint64_t> last_above_zero(const constant_schedule&, std::uint64_t) { return std::nullopt; }
std::optional<std::uint64_t> last_above_zero(const step_schedule& s, std::uint64_t) {
  return s.factor == 0 ? std::optional(s.every - 1) : std::nullopt;
}
std::optional<std::uint64_t> last_above_zero(const cosine_schedule& s, std::uint64_t warmup) {
  return s.final == 0 ? std::optional(s.total - warmup - 1) : std::nullopt;
}
std::string format_shape(const constant_schedule&) { return "constant"; }
std::string format_shape(const step_schedule& s) {
  return fmt::format("step:every={},factor={:.17g}", s.every, s.factor);
}
std::string format_shape(const cosine_schedule& s) {
  return fmt::format("cosine:total={},final={:.17g}", s.total, s.final);
}
void require_valid(const constant_schedule&, std::uint64_t) {}
void require_valid(const step_schedule& s, std::uint64_t) {
  if (s.every == 0) throw std::invalid_argument("schedule 'step': every must be at least 1, not 0");
  if (!(s.factor >= 0 && s.factor < unlimited))
    throw std::invalid_argument(fmt::format("schedule 'step': factor must be at least 0, not {}", s.factor));
}
void require_valid(const cosine_schedule& s, std::uint64_t warmup) {
  if (s.total <= warmup)
    throw std::invalid_argument(fmt::format(
        "schedule 'cosine': total must be more than the {} steps of the warm-up, not {}", warmup, s.total));
  if (!(s.final >= 0 && s.final < unlimited))
    throw std::invalid_argument(fmt::format("schedule 'cosine': final must be at least 0, not {}", s.final));
}

} // namespace

void require_valid(const learning_rate_schedule& schedule) {
  std::visit([&](const auto& s) { require_valid(s, schedule.warmup); }, schedule.shape);
}

double learning_rate(const learning_rate_schedule& schedule, double base, std::uint64_t step) {
  if (step <= schedule.warmup) return base * static_cast<double>(step) / static_cast<double>(schedule.warmup);
  const std::uint64_t t = step - schedule.warmup - 1;
  return base * std::visit([&](const auto& s) { return factor(s, t, schedule.warmup); }, schedule.shape);
}

std::optional<std::uint64_t> last_step_above_zero(const learning_rate_schedule& schedule) {
  const auto last =
      std::visit([&](const auto& s) { return last_above_zero(s, schedule.warmup); }, schedule.shape);
  return last ? std::optional(*last + schedule.warmup + 1) : std::nullopt;
}

learning_rate_schedule parse_schedule(std::string_view text) {
  static constexpr std::array<std::string_view, 3> names{"constant", "step", "cosine"};
  settings words("schedule", text);
  learning_rate_schedule schedule;
  schedule.warmup = words.take_whole("warmup", schedule.warmup);
  if (words.name() == "step")
    schedule.shape = step_schedule{words.take_whole("every", step_schedule{}.every),
                                   words.take_number("factor", step_schedule{}.factor, 0, unlimited)};
  else if (words.name() == "cosine")
    schedule.shape = cosine_schedule{words.take_whole("total", cosine_schedule{}.total),
                                     words.take_number("final", cosine_schedule{}.final, 0, unlimited)};
  else if (words.name() != "constant")
    throw std::invalid_argument(
        fmt::format("schedule '{}' is unknown; {}", words.name(), suggestion(words.name(), names)));
  words.require_nothing_left();
  require_valid(schedule);
  return schedule;
}

std::string to_string(const learning_rate_schedule& schedule) {
  std::string text = std::visit([](const auto& s) { return format_shape(s); }, schedule.shape);
  if (schedule.warmup == 0) return text;
  return fmt::format("{}{}warmup={}", text, text.find(':') == std::string::npos ? ':' : ',', schedule.warmup);
}

} // namespace mailgrad
