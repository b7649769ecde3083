#include <mailgrad/lab/experiments/quadratic_run.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <optional>

// Workers of unlike data and unlike speed. First how long an update of Malenia and a round of Ringleader
// take; then how near to the best weight for all data each method comes in a given time.

namespace mailgrad::lab {

namespace {

constexpr std::uint32_t in_turn = 64; ///< workers, of which worker i takes i seconds

/// With noise, so that each update moves the weight.
quadratic_case case_of_times(const std::string& policy, std::uint64_t steps,
                             const experiment_options& options) {
  return case_of("quadratic:dimension=1,noise=1", in_turn, "constant:i", policy, 1e-3, steps, options.seed);
}

/// The mean over many rounds, of which each has an update for every worker.
double seconds_of_round(const experiment_options& options) {
  const quadratic_case c = case_of_times("ringleader", options.quick ? 20'000 : 100'000, options);
  const training_report r = run_quadratic(c, options).report;
  return r.wall_seconds * in_turn / static_cast<double>(r.updates);
}

/// The moments at which the first updates of Malenia are made. The worker that completes one reads it at
/// once.
std::vector<double> moments_of_updates(const std::string& policy, std::size_t updates,
                                       const experiment_options& options) {
  std::vector<double> moments;
  std::optional<float> before;
  quadratic_case c = case_of_times(policy, 10'000'000, options); // it is stopped by updates
  c.ends_early = [&] { return moments.size() >= updates; };
  c.on_read = [&](rank, instant when, std::span<const float> x) {
    if (before && *before != x[0]) moments.push_back(in_seconds(when));
    before = x[0];
  };
  run_quadratic(c, options);
  moments.resize(updates);
  return moments;
}

/// The least t for which n^2 / (sum of 1 / floor(t / i)) is S or more.
double first_update_by_counting(std::uint64_t s) {
  for (std::uint32_t t = in_turn;; ++t) {
    double inverses = 0;
    for (std::uint32_t i = 1; i <= in_turn; ++i) inverses += 1.0 / (t / i);
    if (double{in_turn} * in_turn >= static_cast<double>(s) * inverses) return t;
  }
}

/// That of Tyurin & Richtarik, in units of L Delta / epsilon: tau_n + (mean of tau) sigma^2 / (n epsilon).
double bracket(double noise) { return in_turn + (in_turn + 1) / 2.0 * noise / in_turn; }

void run_times(const experiment_options& options, experiment_result& result) {
  figure f(
      "times", "How long an update takes that weighs workers alike",
      fmt::format("{} workers, of which worker i takes i seconds. Malenia waits for S gradients by their "
                  "harmonic mean; S is the noise of a gradient over the accuracy sought, or the number of "
                  "workers if that is more. Ringleader makes an update for each worker in such a time.",
                  in_turn),
      {"noise over accuracy", axis_scale::doubling}, {"seconds an update", axis_scale::logarithmic},
      {{"bracket of the paper", series_look::line},
       {"first update, by counting", series_look::line},
       {"malenia:S, first update"},
       {"malenia:S, mean of later ones"},
       {fmt::format("ringleader, a round of {} updates", in_turn)}});
  const std::size_t updates = options.quick ? 8 : 30;
  const double round = seconds_of_round(options);
  result.expect("a round of Ringleader, n updates", "s", "at most twice the slowest worker", 2 * in_turn,
                round, 0, relation::at_most);
  for (const std::uint64_t noise : {1U, 16U, 256U, 1024U}) {
    const std::uint64_t s = std::max<std::uint64_t>(noise, in_turn);
    const std::vector<double> made = moments_of_updates(fmt::format("malenia:{}", s), updates, options);
    const double later = (made.back() - made.front()) / static_cast<double>(updates - 1);
    const double exact = first_update_by_counting(s), known = bracket(static_cast<double>(noise));
    result.expect(fmt::format("first update of Malenia, noise {}", noise), "s", "by counting", exact,
                  made.front());
    result.expect(fmt::format("later updates of Malenia, noise {}", noise), "s",
                  "twice the bracket of the paper", 2 * known, later, 0, relation::at_most);
    const double shown[] = {known, exact, made.front(), later, round};
    for (std::size_t i = 0; i < std::size(shown); ++i) f.series[i].add(noise, shown[i]);
  }
  result.figures.push_back(std::move(f));
}

// -- how near in a given time ----------------------------------------------------------------------------

/// Worker i takes i + |N(0, i)| seconds, and its data lie around i / 16.
constexpr std::uint32_t workers = 16;
constexpr double best_weight = (workers + 1) / 2.0 / workers;
constexpr std::size_t unlike_coordinates = 32;

struct method {
  const char *name, *policy;
  const char* cure = "none";
};

/// Ringleader is the last.
constexpr method methods[] = {{"async", "async"},           {"async, rescaled", "async", "rescaled"},
                              {"rennala:16", "rennala:16"}, {"malenia:16", "malenia:16"},
                              {"malenia:32", "malenia:32"}, {"ringleader", "ringleader"}};

/// The mean square distance of a weight from the best one, over time.
std::vector<figure_point> path_of(const method& m, double rate, double until, std::uint64_t seed,
                                  const experiment_options& options) {
  std::vector<figure_point> path;
  const double between = until / 128;
  bool over = false;
  constexpr std::uint64_t steps = 100'000'000; // it is stopped by time
  quadratic_case c = case_of(fmt::format("quadratic:dimension={},noise=1,start=-1", unlike_coordinates),
                             workers, "half-normal:base=i,sigma=i", m.policy, rate, steps, seed);
  for (std::uint32_t i = 1; i <= workers; ++i) c.targets.push_back(static_cast<float>(i) / workers);
  c.cure = m.cure;
  c.ends_early = [&] { return over; };
  c.on_read = [&](rank, instant when, std::span<const float> x) {
    const double now = in_seconds(when);
    over = now > until;
    if (over || now < static_cast<double>(path.size()) * between) return;
    path.push_back({now, mean_square(x, best_weight)});
  };
  run_quadratic(c, options);
  return path;
}

/// The mean over the last eighth of the time.
double end_of(const std::vector<figure_point>& path, double until) {
  double sum = 0, count = 0;
  for (const figure_point& p : path)
    if (p.x > until * 7 / 8) sum += p.y, ++count;
  return sum / count;
}

/// The best of rates that differ by a factor of the root of 2.
double tuned_rate(const method& m, double until, const experiment_options& options) {
  double best = claim::unknown, least = claim::unknown;
  const std::uint64_t seeds = options.quick ? 2 : 4;
  for (double rate = 0.5; rate > 1e-4; rate /= std::sqrt(2.0)) {
    double error = 0;
    for (std::uint64_t s = 0; s < seeds; ++s)
      error += end_of(path_of(m, rate, until, options.seed + 1000 + s, options), until);
    if (error >= least || std::isnan(error)) continue; // a rate that is too large diverges
    best = rate;
    least = error;
  }
  return best;
}

/// The mean of paths, whose points lie at nearly the same moments.
std::vector<figure_point> mean_path_of(const std::vector<std::vector<figure_point>>& paths) {
  std::vector<figure_point> mean;
  for (std::size_t i = 0;; ++i) {
    figure_point sum;
    for (const std::vector<figure_point>& p : paths) {
      if (i >= p.size()) return mean;
      sum.x += p[i].x / static_cast<double>(paths.size());
      sum.y += p[i].y / static_cast<double>(paths.size());
    }
    mean.push_back(sum);
  }
}

/// The error that a method leaves at its best rate, over seeds that did not choose the rate.
seeds_mean run_method(const method& m, double until, const experiment_options& options, figure& f) {
  const double rate = tuned_rate(m, until, options);
  const auto paths = over_seeds(options, options.quick ? 12 : 48,
                                [&](std::uint64_t seed) { return path_of(m, rate, until, seed, options); });
  f.series.push_back({fmt::format("{}, rate {:.2g}", m.name, rate), series_look::line, mean_path_of(paths)});
  return mean_of(paths, [&](const auto& path) { return end_of(path, until); });
}

void run_errors(const experiment_options& options, experiment_result& result) {
  const double until = options.quick ? 2000 : 4000;
  figure f("errors", "How near methods come to what is best for all data",
           fmt::format("{} workers, of which worker i takes i + |N(0, i)| seconds for a step. Its data lie "
                       "around i / {}, and its gradients have noise of deviation 1. Each method has the rate "
                       "that is best for the last eighth of the time.",
                       workers, workers),
           {"virtual time [s]"}, {"mean square distance from the best weight", axis_scale::logarithmic});
  std::vector<seeds_mean> errors;
  for (const method& m : methods) errors.push_back(run_method(m, until, options, f));
  for (std::size_t i = 0; i + 1 < errors.size(); ++i)
    if (std::string_view(methods[i].cure) == "none")
      result.expect(fmt::format("error of {}, over that of ringleader", methods[i].name), "",
                    "order in the papers", 1, errors[i] / errors.back().mean, 0, relation::at_least);
  result.figures.push_back(std::move(f));
}

} // namespace

void run_unlike_data_and_time(const experiment_options& options, experiment_result& result) {
  run_times(options, result);
  run_errors(options, result);
}

} // namespace mailgrad::lab
