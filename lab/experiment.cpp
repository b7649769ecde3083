#include <mailgrad/lab/experiment.hpp>

#include <mailgrad/lab/experiments/all.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace mailgrad::lab {

namespace {

constexpr std::array all{staleness_laws,
                         stability_map,
                         noise_floor,
                         implicit_momentum,
                         stragglers,
                         error_and_time,
                         backup_workers,
                         fresh_gradients,
                         gap_and_lag,
                         slowdown,
                         unlike_data,
                         unlike_data_and_time,
                         rescue,
                         hogwild,
                         queue_staleness,
                         quorum_goodput,
                         outer_cures,
                         delayed_optimizers,
                         compressed_gradients};

/// A field of a CSV file, quoted where it has to be.
std::string field(std::string_view text) {
  if (text.find_first_of(",\"\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + '"';
}

/// An unknown number is an empty field.
std::string field(double number) { return std::isnan(number) ? "" : fmt::format("{:.9g}", number); }

std::string_view in_words(relation how) {
  switch (how) {
  case relation::at_most:
    return "at most";
  case relation::at_least:
    return "at least";
  case relation::equals:
    break;
  }
  return "equals";
}

} // namespace

bool experiment_result::holds() const noexcept {
  return !claims.empty() && std::ranges::all_of(claims, &claim::holds);
}

std::span<const experiment> experiments() noexcept { return all; }

std::string points_csv(std::string_view experiment, const experiment_result& r) {
  std::string text = "experiment,figure,series,x,y,spread\n";
  for (const figure& f : r.figures)
    for (const figure_series& s : f.series)
      for (const figure_point& p : s.points)
        text += fmt::format("{},{},{},{},{},{}\n", experiment, field(f.name), field(s.name), field(p.x),
                            field(p.y), field(p.spread));
  return text;
}

std::string claims_csv(std::string_view experiment, const experiment_result& r) {
  std::string text =
      "experiment,claim,unit,relation,expected,expected_from,measured,spread,seeds,tolerance,holds\n";
  for (const claim& c : r.claims)
    text +=
        fmt::format("{},{},{},{},{},{},{},{},{},{},{}\n", experiment, field(c.name), field(c.unit),
                    in_words(c.how), field(c.expected), field(c.expected_from), field(c.measured),
                    field(c.spread.deviation), c.spread.seeds, field(c.tolerance), c.holds() ? "yes" : "no");
  return text;
}

} // namespace mailgrad::lab
