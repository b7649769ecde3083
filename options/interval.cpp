#include <mailgrad/options/interval.hpp>

#include <mailgrad/options/number.hpp>

#include <array>
#include <stdexcept>
#include <utility>

namespace mailgrad {

namespace {

/// A longer span would not fit into nanoseconds of 64 bits.
constexpr double longest_seconds = 1e9;

constexpr std::array<std::pair<std::string_view, double>, 4> units{
    {{"ms", 1e-3}, {"min", 60}, {"s", 1}, {"h", 3600}}};

[[noreturn]] void refuse(std::string_view text) {
  throw std::invalid_argument("'" + std::string(text) +
                              "' is no interval; steps as 500, a time as 250ms, 1s, 10min or 2h, or epoch");
}

} // namespace

interval parse_interval(std::string_view text) {
  if (text == "epoch") return {0, {}, 1};
  if (const auto steps = parse_whole(text); steps && *steps > 0) return {*steps, {}, 0};
  for (const auto& [unit, seconds] : units) {
    if (!text.ends_with(unit)) continue;
    const auto n = parse_number(text.substr(0, text.size() - unit.size()));
    if (!n || !(*n * seconds >= 1e-3) || !(*n * seconds <= longest_seconds)) refuse(text);
    const std::chrono::duration<double> span(*n * seconds);
    return {0, std::chrono::duration_cast<std::chrono::nanoseconds>(span), 0};
  }
  refuse(text);
}

} // namespace mailgrad
