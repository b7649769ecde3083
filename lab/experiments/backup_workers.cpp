#include <mailgrad/lab/experiments/quadratic_run.hpp>
#include <mailgrad/lab/theory.hpp>

#include <fmt/format.h>

#include <algorithm>

// Sixteen workers, of which the slowest B of each update are not waited for. First they are not interrupted
// either: they finish a gradient that comes too late and is dropped, and only then begin with the new
// weights. Then they are, and the number of workers to wait for is the one that theory knows.

namespace mailgrad::lab {

namespace {

constexpr std::uint32_t all_workers = 16;

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

double seconds_of_update(std::uint32_t of_workers, unsigned backups, std::string delays, bool interrupts,
                         std::uint64_t steps, std::uint64_t seed, const experiment_options& options) {
  quadratic_case c = case_of("quadratic:dimension=1", of_workers, std::move(delays),
                             fmt::format("backup:{}", backups), 1e-6, steps, seed);
  c.interrupts = interrupts;
  const training_report r = run_quadratic(c, options).report;
  return r.wall_seconds / static_cast<double>(r.updates);
}

std::uint64_t seeds_of_times(const experiment_options& options) { return options.quick ? 2 : 4; }

seeds_mean seconds_over_seeds(unsigned backups, const char* delays, const experiment_options& options) {
  return mean_over_seeds(options, seeds_of_times(options), [&](std::uint64_t seed) {
    return seconds_of_update(all_workers, backups, delays, false, options.quick ? 16'000 : 64'000, seed,
                             options);
  });
}

// -- interrupted workers ---------------------------------------------------------------------------------

/// So many workers, whose steps take `shift` and an exponential time of mean 1.
struct interrupted_setting {
  std::uint32_t workers;
  double shift;
  std::uint64_t rounds;
};

double cost_of(const interrupted_setting& s, std::uint32_t number, std::uint64_t seed,
               const experiment_options& options) {
  const std::string delays = s.shift > 0 ? fmt::format("shifted-exp:shift={},mean=1", s.shift) : "exp";
  return seconds_of_update(s.workers, s.workers - number, delays, true, s.rounds * s.workers, seed, options) /
         number;
}

/// Workers that are interrupted as soon as an update has been made without them: what an update costs for
/// each of its gradients, for the best number of workers to wait for and its neighbours. With one seed each
/// worker draws the same times in each round, so that the numbers compare well.
void claim_interrupted(const interrupted_setting& s, const experiment_options& options,
                       experiment_result& result, figure_series& measured) {
  constexpr std::uint64_t seeds = 4;
  const std::uint32_t best = best_number_to_wait_for(s.workers, s.shift), first = std::max(best, 2U) - 1;
  std::vector<seeds_mean> costs;
  for (std::uint32_t n = first; n <= std::min(best + 1, s.workers); ++n)
    costs.push_back(mean_over_seeds(options, seeds, [&](std::uint64_t seed) {
      return cost_of({s.workers, s.shift, s.rounds / seeds}, n, seed, options);
    }));
  const auto least = std::ranges::min_element(costs, {}, &seeds_mean::mean) - costs.begin();
  const double found = first + static_cast<double>(least);
  const std::string what = fmt::format("{} workers of {:g} + exponential s, interrupted", s.workers, s.shift);
  result.expect("best number to wait for, " + what, "", "least (c + H(M) - H(M - N)) / N", best,
                {found, {claim::unknown, seeds}});
  if (s.workers == all_workers) measured.add(s.shift, found);
  for (std::uint32_t i = 0; i < costs.size(); ++i) {
    const std::uint32_t n = first + i;
    const double exact = (s.shift + mean_of_kth_exponential(n, s.workers)) / n;
    const double chance =
        chance_of_mean(deviation_of_kth_exponential(n, s.workers) / n, static_cast<double>(s.rounds));
    result.expect(fmt::format("time of a gradient, {} of {}", n, what), "s", "(c + H(M) - H(M - N)) / N",
                  exact, costs[i], std::max(0.005 * exact, chance));
  }
}

void run_interrupted(const experiment_options& options, experiment_result& result) {
  figure f("number", "How many of sixteen workers to wait for",
           "How many workers an update waits for, if it takes the least time for each of its gradients. "
           "Steps take c seconds and an exponential time of mean 1, and whoever is late is "
           "interrupted. Measured are the known number and its two neighbours.",
           {"c, the least time of a step [s]"}, {"workers to wait for"},
           {{"known", series_look::line}, {"measured"}});
  const std::vector<interrupted_setting> settings =
      options.quick ? std::vector<interrupted_setting>{{all_workers, 1, 8'000}, {all_workers, 10, 2'000}}
                    : std::vector<interrupted_setting>{{all_workers, 0, 40'000}, {all_workers, 1, 40'000},
                                                       {all_workers, 2, 20'000}, {all_workers, 5, 60'000},
                                                       {all_workers, 10, 8'000}, {all_workers, 20, 8'000},
                                                       {100, 18, 4'000}};
  for (double c = 0; c <= 20; c += 0.05) f.series[0].add(c, best_number_to_wait_for(all_workers, c));
  for (const interrupted_setting& s : settings) claim_interrupted(s, options, result, f.series[1]);
  result.figures.push_back(std::move(f));
}

} // namespace

void run_backup_workers(const experiment_options& options, experiment_result& result) {
  figure f(
      "time", "What backup workers gain",
      "Mean time of an update of 16 workers that does not wait for the B slowest, over the number of "
      "gradients in it. Less is better where noise decides how many updates are needed. The last line is of "
      "exponential times, if late workers were interrupted.",
      {"backup workers B"}, {"time of an update / its gradients [s]"},
      {{"exact, exponential", series_look::line},
       {"measured, exponential"},
       {"measured, Pareto, alpha 2"},
       {"exact, if interrupted", series_look::line}});
  double least_heavy = 1e9, heavy_without = 0;
  for (const unsigned backups : {0U, 1U, 2U, 4U, 8U, 12U}) {
    const unsigned needed = all_workers - backups;
    const double exact = exact_seconds(needed, backups, needed);
    const seeds_mean m = seconds_over_seeds(backups, "exp", options);
    const seeds_mean heavy = seconds_over_seeds(backups, "pareto:alpha=2", options);
    f.series[0].add(backups, exact / needed);
    f.series[1].add(backups, m / needed);
    f.series[2].add(backups, heavy / needed);
    f.series[3].add(backups, mean_of_kth_exponential(needed, all_workers) / needed);
    result.expect(fmt::format("update without the {} slowest of 16, exponential", backups), "s",
                  "Markov chain", exact, m, (options.quick ? 0.04 : 0.02) * exact);
    if (backups == 0) heavy_without = heavy.mean / needed;
    least_heavy = std::min(least_heavy, heavy.mean / needed);
  }
  result.expect(
      "time of a gradient with the best B, over that with none, heavy tails", "", "Chen et al.: it helps",
      0.8, {least_heavy / heavy_without, {claim::unknown, seeds_of_times(options)}}, 0, relation::at_most);
  result.figures.push_back(std::move(f));
  run_interrupted(options, result);
}

} // namespace mailgrad::lab
