#include <mailgrad/cli/lab/experiment_words.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace mailgrad {

std::string number_in_words(double number) {
  return std::isnan(number) ? "-" : fmt::format("{:.4g}", number);
}

std::string expectation_in_words(const lab::claim& c) {
  const std::string number = number_in_words(c.expected);
  switch (c.how) {
  case lab::relation::at_most:
    return "<= " + number;
  case lab::relation::at_least:
    return ">= " + number;
  case lab::relation::equals:
    break;
  }
  return number;
}

std::string in_words(const lab::experiment_result& r, double seconds) {
  std::size_t width = std::string_view("claim").size();
  for (const lab::claim& c : r.claims) width = std::max(width, c.name.size());
  std::string text = fmt::format("{:{}}  {:>10}  {:>10}  {:>9}  {:>5}  {:>9}  \n", "claim", width, "expected",
                                 "measured", "spread", "seeds", "tolerance");
  for (const lab::claim& c : r.claims)
    text += fmt::format("{:{}}  {:>10}  {:>10}  {:>9}  {:>5}  {:>9}  {}{}\n", c.name, width,
                        expectation_in_words(c), number_in_words(c.measured),
                        number_in_words(c.spread.deviation), c.spread.seeds, number_in_words(c.tolerance),
                        c.holds() ? "holds" : "FAILS", c.unit.empty() ? "" : "  [" + c.unit + "]");
  const auto held = std::ranges::count_if(r.claims, &lab::claim::holds);
  return text + fmt::format("{} of {} claims hold ({:.1f} s)\n", held, r.claims.size(), seconds);
}

std::string introduction(const lab::experiment& e) {
  return fmt::format("{}: {}\npaper: {}\n\n", e.name, e.claim, e.paper);
}

std::string list_of_experiments() {
  std::string text;
  std::size_t width = 0;
  for (const lab::experiment& e : lab::experiments()) width = std::max(width, e.name.size());
  for (const lab::experiment& e : lab::experiments())
    text += fmt::format("{:{}}  {}\n", e.name, width, e.claim);
  return text;
}

} // namespace mailgrad
