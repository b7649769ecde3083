#include <mailgrad/lab/links/link_times.hpp>

#include <mailgrad/engine/delays/worker_formula.hpp>

#include <fmt/format.h>

#include <stdexcept>
#include <string_view>

namespace mailgrad::lab {

namespace {

struct amount {
  std::string_view name;
  std::string_view unit;
  double least;
  double most;
};

constexpr amount latency{"latency", "seconds", 0, 1e6};
constexpr amount bandwidth{"bandwidth", "bytes a second", 1, 1e15};

/// 0 for an empty text.
double amount_of(const amount& what, const std::string& text, rank worker, std::uint32_t workers) {
  if (text.empty()) return 0;
  const auto fail = [&](std::string_view why) {
    throw std::invalid_argument(fmt::format("{} '{}': {}", what.name, text, why));
  };
  try {
    const double found = worker_formula(text).of(worker.value, workers);
    if (found >= what.least && found <= what.most) return found;
    fail(fmt::format("expected {:g} to {:g} {}, found {:g} for worker {}", what.least, what.most, what.unit,
                     found, worker.value));
  } catch (const std::invalid_argument& e) {
    const std::string_view words = e.what();
    if (words.starts_with(what.name)) throw;
    fail(words);
  }
  return 0;
}

} // namespace

link_times times_of(const link_formulas& f, rank worker, std::uint32_t workers) {
  return {amount_of(latency, f.latency, worker, workers), amount_of(bandwidth, f.bandwidth, worker, workers)};
}

} // namespace mailgrad::lab
