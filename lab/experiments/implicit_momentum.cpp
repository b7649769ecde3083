#include <mailgrad/lab/experiments/all.hpp>
#include <mailgrad/lab/experiments/quadratic_run.hpp>
#include <mailgrad/lab/theory/memoryless_workers.hpp>

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

// The mean over many runs of a quadratic of one coordinate, curvature 1, from 1 on, without noise. Only the
// times of the workers differ from run to run.

namespace mailgrad::lab {

namespace {

constexpr double a = 0.5; ///< the step

/// Adds x(0), ..., x(last) of one run to `sums`.
void add_run(std::uint32_t workers, std::uint64_t seed, std::vector<double>& sums,
             const experiment_options& options) {
  quadratic_case c;
  c.model = "quadratic:dimension=1";
  c.workers = workers;
  c.delays = "exp";
  c.learning_rate = a;
  c.steps = 3 * workers + sums.size() - 1; // at the very end some workers have no batch
  c.seed = seed;
  std::uint64_t reads = 0;
  c.on_read = [&](rank, instant, std::span<const float> x) {
    if (++reads >= workers && reads - workers < sums.size())
      sums[reads - workers] += x[0]; // all workers read x(0)
  };
  run_quadratic(c, options);
}

/// The means of as many runs, for each of a few seeds.
std::vector<std::vector<double>> measured_means(std::uint32_t workers, std::size_t last, std::uint64_t seeds,
                                                std::uint64_t runs, const experiment_options& options) {
  std::vector<std::vector<double>> all;
  for (std::uint64_t s = 0; s < seeds; ++s) {
    std::vector<double> sums(last + 1);
    for (std::uint64_t r = 0; r < runs; ++r)
      add_run(workers, (options.seed + s) * 1'000'003 + r, sums, options);
    for (double& sum : sums) sum /= static_cast<double>(runs);
    all.push_back(std::move(sums));
  }
  return all;
}

struct fitted_momentum {
  double momentum = 0, step = 0;
};

/// Least squares of x(t+2) - x(t+1) = momentum (x(t+1) - x(t)) - step x(t+1). The first move of all has no
/// momentum yet, so it is left out.
fitted_momentum fit(const std::vector<double>& x) {
  double uu = 0, uv = 0, vv = 0, uy = 0, vy = 0;
  for (std::size_t t = 0; t + 2 < x.size(); ++t) {
    const double u = x[t + 1] - x[t], v = -x[t + 1], y = x[t + 2] - x[t + 1];
    uu += u * u, uv += u * v, vv += v * v, uy += u * y, vy += v * y;
  }
  const double det = uu * vv - uv * uv;
  return {(uy * vv - vy * uv) / det, (vy * uu - uy * uv) / det};
}

std::vector<double> column(const std::vector<std::vector<double>>& all, std::size_t t) {
  std::vector<double> values;
  for (const auto& one : all) values.push_back(one[t]);
  return values;
}

void claim_fit(std::uint32_t workers, const std::vector<std::vector<double>>& all, double tolerance,
               experiment_result& result) {
  std::vector<double> momenta, steps;
  for (const auto& one : all) {
    momenta.push_back(fit(one).momentum);
    steps.push_back(fit(one).step);
  }
  const seeds_mean momentum = mean_over_seeds(momenta), step = mean_over_seeds(steps);
  result.claims.push_back({fmt::format("implicit momentum of {} workers", workers), "", "1 - 1/M",
                           1 - 1.0 / workers, momentum.mean, momentum.spread, tolerance});
  result.claims.push_back({fmt::format("effective step of {} workers", workers), "", "step / M", a / workers,
                           step.mean, step.spread, 4 * tolerance * a / workers});
}

} // namespace

void run_implicit_momentum(const experiment_options& options, experiment_result& result) {
  constexpr std::size_t last = 16;
  const std::uint64_t seeds = 5, runs = options.quick ? 100 : 600;
  const double tolerance = options.quick ? 0.06 : 0.03;
  figure f{
      "mean",
      "The mean path of asynchronous descent is one with momentum",
      "Mean weight over many runs of a quadratic of one coordinate, curvature 1 and step 0.5, whose workers "
      "take exponential times. The lines are descent with momentum 1 - 1/M and step 0.5 / M.",
      {"updates"},
      {"mean weight"},
      {}};
  for (const std::uint32_t workers : {2U, 4U, 8U}) {
    const std::vector<double> exact = mean_path(workers, a, last);
    const auto all = measured_means(workers, last, seeds, runs, options);
    figure_series known{fmt::format("exact, {} workers", workers), series_look::line};
    figure_series found{fmt::format("measured, {} workers", workers)};
    for (std::size_t t = 0; t <= last; ++t) {
      const seeds_mean m = mean_over_seeds(column(all, t));
      known.points.push_back({static_cast<double>(t), exact[t]});
      found.points.push_back({static_cast<double>(t), m.mean, m.spread});
      if (workers == 4 && t >= 1 && t <= 8)
        result.claims.push_back({fmt::format("mean weight of {} workers after {} updates", workers, t), "",
                                 "recursion of the mean", exact[t], m.mean, m.spread, tolerance});
    }
    claim_fit(workers, all, tolerance, result);
    f.series.push_back(std::move(known));
    f.series.push_back(std::move(found));
  }
  result.figures.push_back(std::move(f));
}

} // namespace mailgrad::lab
