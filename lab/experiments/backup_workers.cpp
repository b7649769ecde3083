#include <mailgrad/lab/experiments/all.hpp>
#include <mailgrad/lab/experiments/quadratic_run.hpp>
#include <mailgrad/lab/theory/order_statistics.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

// Sixteen workers, of which the slowest B of each update are not waited for. They are not interrupted either:
// they finish a gradient that comes too late and is dropped, and only then begin with the new weights.

namespace mailgrad::lab {

namespace {

constexpr std::uint32_t workers = 16;

/// The mean time of an update that needs `needed` fresh gradients, with exponential times of mean 1: a chain
/// whose state is how many workers compute a fresh gradient and how many a late one. At its begin, the
/// workers that were waited for are fresh, and the others are late.
double exact_seconds(unsigned fresh, unsigned late, unsigned needed) {
  if (needed == 0) return 0;
  const double all = fresh + late;
  double seconds = 1 / all;
  if (fresh > 0) seconds += fresh / all * exact_seconds(fresh - 1, late, needed - 1);
  if (late > 0) seconds += late / all * exact_seconds(fresh + 1, late - 1, needed);
  return seconds;
}

struct outcome {
  double seconds = 0; ///< of an update
  double dropped = 0; ///< of all gradients
};

outcome measure(unsigned backups, const char* delays, std::uint64_t seed, const experiment_options& options) {
  quadratic_case c;
  c.model = "quadratic:dimension=1";
  c.workers = workers;
  c.delays = delays;
  c.policy = fmt::format("backup:{}", backups);
  c.learning_rate = 1e-6;
  c.steps = options.quick ? 16'000 : 64'000;
  c.seed = seed;
  const training_report r = run_quadratic(c, options).report;
  return {r.wall_seconds / static_cast<double>(r.updates),
          static_cast<double>(r.ledger.discarded_in_all()) / static_cast<double>(r.steps)};
}

seeds_mean seconds_over_seeds(unsigned backups, const char* delays, const experiment_options& options) {
  std::vector<double> all;
  for (std::uint64_t s = 0; s < (options.quick ? 2U : 4U); ++s)
    all.push_back(measure(backups, delays, options.seed + s, options).seconds);
  return mean_over_seeds(all);
}

} // namespace

void run_backup_workers(const experiment_options& options, experiment_result& result) {
  figure f{"time",
           "What backup workers gain",
           "Mean time of an update of 16 workers that does not wait for the B slowest, over the number of "
           "gradients in it. Less is better where noise decides how many updates are needed.",
           {"backup workers B"},
           {"time of an update / its gradients [s]"},
           {{"exact, exponential", series_look::line},
            {"measured, exponential"},
            {"measured, Pareto, alpha 2"},
            {"exact, exponential, if late workers were interrupted", series_look::line}}};
  double least_heavy = 1e9, heavy_without = 0;
  for (const unsigned backups : {0U, 1U, 2U, 4U, 8U, 12U}) {
    const unsigned needed = workers - backups;
    const double exact = exact_seconds(needed, backups, needed);
    const seeds_mean m = seconds_over_seeds(backups, "exp", options);
    const seeds_mean heavy = seconds_over_seeds(backups, "pareto:alpha=2", options);
    f.series[0].points.push_back({static_cast<double>(backups), exact / needed});
    f.series[1].points.push_back({static_cast<double>(backups), m.mean / needed, m.spread / needed});
    f.series[3].points.push_back(
        {static_cast<double>(backups), mean_of_kth_exponential(needed, workers) / needed});
    f.series[2].points.push_back({static_cast<double>(backups), heavy.mean / needed, heavy.spread / needed});
    result.claims.push_back({fmt::format("update without the {} slowest of 16, exponential", backups), "s",
                             "Markov chain", exact, m.mean, m.spread, (options.quick ? 0.04 : 0.02) * exact});
    if (backups == 0) heavy_without = heavy.mean / needed;
    least_heavy = std::min(least_heavy, heavy.mean / needed);
  }
  result.claims.push_back({"best B against none, heavy tails: time of a gradient", "",
                           "Chen et al.: it helps", 0.8, least_heavy / heavy_without, claim::unknown, 0,
                           relation::at_most});
  result.figures.push_back(std::move(f));
}

} // namespace mailgrad::lab
