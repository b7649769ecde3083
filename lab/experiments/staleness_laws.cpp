#include <mailgrad/lab/experiments/all.hpp>
#include <mailgrad/lab/experiments/quadratic_run.hpp>
#include <mailgrad/lab/theory/order_statistics.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

// How stale gradients are, and how fast workers are that wait for others, as far as it is known: by counting,
// by closed forms, or by figures of others that have three digits or more.

namespace mailgrad::lab {

namespace {

constexpr double half_a_percent = 0.005;

struct run_of_workers {
  std::uint32_t workers;
  std::string delays;
  std::string policy;
  std::uint64_t steps;
};

training_report report_of(const run_of_workers& r, std::uint64_t seed, const experiment_options& options) {
  quadratic_case c;
  c.model = "quadratic:dimension=1";
  c.workers = r.workers;
  c.delays = r.delays;
  c.policy = r.policy;
  c.learning_rate = 1e-6;
  c.steps = r.steps;
  c.seed = seed;
  return run_quadratic(c, options).report;
}

/// The reports of as many steps in all, with several seeds.
std::vector<training_report> reports_of(run_of_workers r, const experiment_options& options,
                                        std::uint64_t seeds = 16) {
  r.steps /= seeds;
  std::vector<training_report> all;
  for (std::uint64_t s = 0; s < seeds; ++s) all.push_back(report_of(r, options.seed + s, options));
  return all;
}

template <class Figure>
seeds_mean mean_of(const std::vector<training_report>& reports, const Figure& figure) {
  std::vector<double> values;
  for (const training_report& r : reports) values.push_back(figure(r));
  return mean_over_seeds(values);
}

void claim_figure(std::string name, std::string unit, std::string from, double expected, const seeds_mean& m,
                  experiment_result& result) {
  result.claims.push_back({std::move(name), std::move(unit), std::move(from), expected, m.mean, m.spread,
                           std::max(half_a_percent * expected, m.by_chance())});
}

// -- staleness -------------------------------------------------------------------------------------------

/// Each update makes the gradients of all other workers one version older. So chance has hardly a part in the
/// means.
void claim_means(const experiment_options& options, experiment_result& result) {
  const std::uint64_t steps = options.quick ? 20'000 : 200'000, seeds = options.quick ? 1 : 2;
  const auto claim_mean = [&](const run_of_workers& r, const char* from, double expected) {
    claim_figure(
        fmt::format("mean staleness, {} workers, {}, {}", r.workers, r.policy, r.delays), "versions", from,
        expected,
        mean_of(reports_of(r, options, seeds), [](const training_report& x) { return x.staleness.mean(); }),
        result);
  };
  for (const char* delays : {"exp", "pareto:alpha=1.5", "gamma:cv=0.1", "constant:sqrt(i)"}) {
    claim_mean({8, delays, "async", steps}, "M - 1", 7);
    claim_mean({8, delays, "k-batch-async:4", steps}, "(M - 1) / K", 1.75);
    claim_mean({8, delays, "k-async:4", steps}, "(M - K) / K", 1);
  }
  for (const std::uint32_t k : {2U, 5U, 30U})
    claim_mean({30, "gamma:cv=0.1", fmt::format("k-batch-async:{}", k), steps},
               "(M - 1) / K; the paper of softsync", 29.0 / k);
}

/// Of workers without memory: (1 - 1/M)^k / M.
void claim_distribution(std::uint32_t workers, const experiment_options& options, experiment_result& result,
                        figure& f) {
  const std::uint64_t steps = options.quick ? 80'000 : 1'000'000;
  const auto reports = reports_of({workers, "exp", "async", steps}, options);
  const double stays = 1 - 1.0 / workers;
  const auto share = [](const training_report& r, const auto& counts) {
    double sum = 0;
    for (const auto& [gap, times] : r.staleness.buckets())
      if (counts(gap)) sum += static_cast<double>(times);
    return sum / static_cast<double>(r.staleness.total());
  };
  const std::string of = fmt::format("{} workers without memory", workers);
  claim_figure(
      "share of fresh gradients, " + of, "", "1 / M", 1 - stays,
      mean_of(reports, [&](const auto& r) { return share(r, [](std::uint64_t gap) { return gap == 0; }); }),
      result);
  claim_figure(
      "share of 2 M versions and more, " + of, "", "(1 - 1/M)^(2 M)", std::pow(stays, 2.0 * workers),
      mean_of(reports,
              [&](const auto& r) { return share(r, [&](std::uint64_t gap) { return gap >= 2 * workers; }); }),
      result);
  figure_series known{fmt::format("exact, {} workers", workers), series_look::line};
  figure_series found{fmt::format("measured, {} workers", workers)};
  for (std::uint64_t gap = 0; gap <= 30; gap += 2) {
    const auto x = static_cast<double>(gap);
    const seeds_mean m = mean_of(
        reports, [&](const auto& r) { return share(r, [&](std::uint64_t seen) { return seen == gap; }); });
    known.points.push_back({x, (1 - stays) * std::pow(stays, x)});
    if (known.points.back().y * static_cast<double>(steps) > 50) found.points.push_back({x, m.mean});
  }
  f.series.push_back(std::move(known));
  f.series.push_back(std::move(found));
}

/// Of worker i with mean time E_i: E_i times the rate of all workers, less 1.
void claim_unlike_workers(const experiment_options& options, experiment_result& result) {
  const auto reports = reports_of(
      {4, "gamma:cv=0.5,mean=1+(i-1)*(i-2)*(i-3)/2", "async", options.quick ? 20'000U : 1'000'000U}, options);
  for (const auto& [worker, expected] : {std::pair(0U, 2.25), {3U, 12.0}})
    claim_figure(fmt::format("mean staleness of worker {}, steps of 1, 1, 1, 4 s in the mean", worker),
                 "versions", "its mean time x all updates a second - 1", expected,
                 mean_of(reports, [w = worker](const auto& r) { return staleness_of(r, w).mean(); }), result);
}

// -- pace ------------------------------------------------------------------------------------------------

double steps_a_second(const training_report& r) { return static_cast<double>(r.steps) / r.wall_seconds; }

void claim_pace_of_ssp(const experiment_options& options, experiment_result& result) {
  const std::uint64_t steps = options.quick ? 20'000 : 600'000;
  for (const unsigned s : {0U, 1U, 2U, 3U, 9U})
    claim_figure(fmt::format("pace of 2 workers without memory, ssp:{}", s), "steps/s",
                 "(4 s + 4) / (2 s + 3)", (4.0 * s + 4) / (2 * s + 3),
                 mean_of(reports_of({2, "exp", fmt::format("ssp:{}", s), steps}, options), steps_a_second),
                 result);
  struct known {
    std::uint32_t workers;
    unsigned s;
    double pace;
  };
  for (const known& k :
       {known{4, 1, 2.64}, {4, 3, 3.20}, {4, 10, 3.68}, {16, 1, 7.71}, {16, 3, 10.68}, {16, 10, 13.70}})
    claim_figure(
        fmt::format("pace of {} workers without memory, ssp:{}", k.workers, k.s), "steps/s",
        "another simulation", k.pace,
        mean_of(reports_of({k.workers, "exp", fmt::format("ssp:{}", k.s), steps}, options), steps_a_second),
        result);
}

/// A barrier waits for the largest of M draws. The figures are integrals of 1 - F(x)^M, or closed forms.
void claim_largest(const experiment_options& options, experiment_result& result) {
  struct known {
    const char* delays;
    double of_4, of_16, of_64;
  };
  const known all[] = {{"gamma:cv=0.1", 1.1046, 1.1845, 1.2500},
                       {"gamma:cv=0.3", 1.3219, 1.5978, 1.8413},
                       {"gamma:cv=0.6", 1.6556, 2.3111, 2.9411},
                       {"lognormal:sigma=0.25", 1.2734, 1.5215, 1.7528},
                       {"lognormal:sigma=0.5", 1.5733, 2.2179, 2.9258},
                       {"lognormal:sigma=1", 2.2081, 4.1697, 7.0731},
                       {"slowdown:p=0.05,factor=10", 2.6694, 6.0389, 9.6623},
                       {"pareto:alpha=3", mean_of_kth_pareto(4, 4, 3), mean_of_kth_pareto(16, 16, 3),
                        mean_of_kth_pareto(64, 64, 3)}};
  const std::uint64_t rounds = options.quick ? 1'000 : 16'000, most = 400'000;
  for (const known& k : all)
    for (const auto& [workers, seconds] : {std::pair(4U, k.of_4), {16U, k.of_16}, {64U, k.of_64}}) {
      if (options.quick && workers == 64) continue;
      claim_figure(
          fmt::format("update of sync, {} workers, {}", workers, k.delays), "s",
          "mean of the largest of M draws", seconds,
          mean_of(reports_of({workers, k.delays, "sync", std::min(rounds * workers, most)}, options),
                  [](const training_report& r) { return r.wall_seconds / static_cast<double>(r.updates); }),
          result);
    }
}

} // namespace

void run_staleness_laws(const experiment_options& options, experiment_result& result) {
  figure f{
      "distribution",
      "How stale gradients are whose workers have no memory",
      "Share of gradients by their staleness, of workers that never wait and take exponential times. The "
      "lines are (1 - 1/M)^k / M.",
      {"staleness [versions]"},
      {"share of gradients", axis_scale::logarithmic},
      {}};
  claim_means(options, result);
  for (const std::uint32_t workers : {4U, 16U, options.quick ? 8U : 64U})
    claim_distribution(workers, options, result, f);
  claim_unlike_workers(options, result);
  claim_pace_of_ssp(options, result);
  claim_largest(options, result);
  result.figures.push_back(std::move(f));
}

} // namespace mailgrad::lab
