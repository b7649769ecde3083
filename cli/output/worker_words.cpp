#include <mailgrad/cli/output/worker_words.hpp>

#include <mailgrad/cli/output/summary_column.hpp>
#include <mailgrad/cli/output/unknown_figures.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace mailgrad {

namespace {

std::string staleness_in_words(const staleness_histogram& h, const training_report& r) {
  if (h.empty()) return untold(r, "no gradient was applied");
  return fmt::format("mean {:.2f}, p50 {}, p99 {}, max {}", h.mean(), h.quantile(0.5), h.quantile(0.99),
                     h.max());
}

/// "means from 0.98 (worker 3) to 12.04 (worker 999)"
std::string range_of_workers(const training_report& r) {
  std::vector<staleness_histogram> gaps(r.workers);
  for (const exchange_figures& x : r.exchanges)
    if (x.worker < r.workers) gaps[x.worker].merge(x.gaps);
  const auto by_mean = [&](std::size_t a, std::size_t b) { return gaps[a].mean() < gaps[b].mean(); };
  std::vector<std::size_t> told;
  for (std::size_t w = 0; w < gaps.size(); ++w)
    if (!gaps[w].empty()) told.push_back(w);
  if (told.empty()) return staleness_in_words({}, r);
  const auto [least, most] = std::ranges::minmax_element(told, by_mean);
  return fmt::format("means from {:.2f} (worker {}) to {:.2f} (worker {})", gaps[*least].mean(), *least,
                     gaps[*most].mean(), *most);
}

std::string devices_in_words(const training_report& r, std::uint32_t worker) {
  const std::size_t each = r.devices.size() / r.workers;
  std::string text;
  for (std::size_t d = 0; d < each; ++d) text.append(d == 0 ? "" : ", ").append(r.devices[worker * each + d]);
  return text;
}

} // namespace

std::string staleness_lines(const training_report& r) {
  std::string text = "staleness     " + staleness_in_words(r.staleness, r) +
                     (r.staleness.empty() ? "" : without_lost(r)) + '\n';
  if (r.workers > most_workers_named) return text + "  by worker   " + range_of_workers(r) + '\n';
  for (std::uint32_t w = 0; r.workers > 1 && w < r.workers; ++w)
    text += fmt::format("{}{} ({})\n", summary_column(fmt::format("  worker {}", w)),
                        staleness_in_words(staleness_of(r, w), r), devices_in_words(r, w));
  return text;
}

std::string stages_in_words(const training_report& r) {
  if (r.workers > most_workers_named) {
    const auto [least, most] = std::ranges::minmax(r.stages, {}, &stage_figures::busy_seconds);
    return fmt::format("computed from {:.0f} % to {:.0f} % of the time",
                       100 * least.busy_seconds / r.wall_seconds, 100 * most.busy_seconds / r.wall_seconds);
  }
  std::string text;
  for (std::size_t p = 0; p < r.stages.size(); ++p) {
    const stage_figures& stage = r.stages[p];
    const bool first = p == 0 || stage.worker != r.stages[p - 1].worker;
    text.append(p == 0 ? "" : first ? "; " : ", ");
    if (first) text += fmt::format("worker {}: ", stage.worker);
    text += fmt::format("{} computed {:.0f} %", stage.device, 100 * stage.busy_seconds / r.wall_seconds);
    if (p == 0) text += " of the time";
  }
  return text;
}

} // namespace mailgrad
