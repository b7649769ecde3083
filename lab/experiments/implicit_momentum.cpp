#include <mailgrad/lab/experiments/quadratic_run.hpp>
#include <mailgrad/lab/theory.hpp>

#include <fmt/format.h>

#include <algorithm>

// The mean over many runs of a quadratic of one coordinate, curvature 1, from 1 on, without noise. Only the
// times of the workers differ from run to run.

namespace mailgrad::lab {

namespace {

constexpr double full_step = 0.5; ///< the step
constexpr std::size_t last = 16;

/// What many runs have in common.
struct runs_of_workers {
  std::uint32_t workers;
  std::vector<std::vector<double>> means{}; ///< of the path, for each group of runs
  double farthest = 0;                      ///< of any weight, from the recursion along the order of its run
  std::uint64_t updates = 0;                ///< of which the worker and the one before are known
  std::uint64_t repeated = 0;               ///< of these, by the worker that made the one before
};

/// One run: the path, and who made each update.
struct ordered_path {
  std::vector<double> x;
  std::vector<rank> makers; ///< of x[1] and the rest
};

ordered_path run_once(std::uint32_t workers, std::uint64_t seed, const experiment_options& options) {
  quadratic_case c = case_of("quadratic:dimension=1", workers, "exp", "async", full_step, 3 * workers + last,
                             seed); // at the very end some workers have no batch
  ordered_path made;
  std::uint64_t reads = 0;
  c.on_read = [&](rank who, instant, std::span<const float> x) {
    if (++reads < workers || made.x.size() > last) return; // all workers read x(0)
    if (!made.x.empty()) made.makers.push_back(who);
    made.x.push_back(x[0]);
  };
  run_quadratic(c, options);
  if (made.x.size() <= last) throw std::logic_error("implicit-momentum: a run has made too few updates");
  return made;
}

/// x(t+1) = x(t) - a w, where w is what the worker that makes this update has read. It then reads x(t+1).
double farthest_from_recursion(const ordered_path& made, std::uint32_t workers) {
  std::vector<double> read(workers, 1);
  double x = 1, farthest = 0;
  for (std::size_t t = 0; t < made.makers.size(); ++t) {
    x -= full_step * read[made.makers[t].value];
    read[made.makers[t].value] = x;
    farthest = std::max(farthest, std::abs(x - made.x[t + 1]));
  }
  return farthest;
}

runs_of_workers run_many(std::uint32_t workers, std::uint64_t groups, std::uint64_t runs,
                         const experiment_options& options) {
  runs_of_workers all{workers};
  for (std::uint64_t g = 0; g < groups; ++g) {
    std::vector<double> mean(last + 1);
    for (std::uint64_t r = 0; r < runs; ++r) {
      const ordered_path made = run_once(workers, (options.seed + g) * 1'000'003 + r, options);
      for (std::size_t t = 0; t <= last; ++t) mean[t] += made.x[t] / static_cast<double>(runs);
      all.farthest = std::max(all.farthest, farthest_from_recursion(made, workers));
      for (std::size_t t = 1; t < made.makers.size(); ++t, ++all.updates)
        all.repeated += made.makers[t] == made.makers[t - 1] ? 1 : 0;
    }
    all.means.push_back(std::move(mean));
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

/// The mean path of all groups but one.
std::vector<double> mean_without(const std::vector<std::vector<double>>& all, std::size_t left_out) {
  std::vector<double> mean(last + 1);
  for (std::size_t g = 0; g < all.size(); ++g)
    for (std::size_t t = 0; t <= last && g != left_out; ++t) mean[t] += all[g][t];
  const double groups = static_cast<double>(all.size()) - (left_out < all.size() ? 1 : 0);
  for (double& x : mean) x /= groups;
  return mean;
}

/// A figure that is fitted to the mean of all groups, with the jackknife's word for how it differs from group
/// to group: that of the figures without one group each.
seeds_mean fitted(const std::vector<std::vector<double>>& all, double fitted_momentum::*figure) {
  std::vector<double> without;
  for (std::size_t g = 0; g < all.size(); ++g) without.push_back(fit(mean_without(all, g)).*figure);
  const double groups = static_cast<double>(all.size());
  const double deviation = mean_over_seeds(without).spread.deviation * (groups - 1);
  return {fit(mean_without(all, all.size())).*figure, {deviation, all.size()}};
}

/// Beside the fit, what makes the mean what it is: each run follows a recursion along its own order of
/// workers, and each worker is as likely to be the next as any other.
void claim_fit_and_order(const runs_of_workers& all, experiment_result& result) {
  const std::uint32_t workers = all.workers;
  const seeds_mean momentum = fitted(all.means, &fitted_momentum::momentum);
  const seeds_mean step = fitted(all.means, &fitted_momentum::step);
  result.expect(fmt::format("implicit momentum of {} workers", workers), "", "1 - 1/M", 1 - 1.0 / workers,
                momentum, momentum.by_chance());
  result.expect(fmt::format("effective step of {} workers", workers), "", "step / M", full_step / workers,
                step, step.by_chance());
  const double n = static_cast<double>(all.updates), p = 1.0 / workers;
  const seeds_spread of_runs{claim::unknown, all.updates / (last - 1)};
  result.expect(fmt::format("largest difference of any of {} runs of {} workers", of_runs.seeds, workers), "",
                "recursion along the order of the run", 0, {all.farthest, of_runs}, 1e-5);
  result.expect(fmt::format("updates by the worker of the one before, of {} workers", workers), "", "1/M", p,
                {static_cast<double>(all.repeated) / n, of_runs}, 4 * std::sqrt(p * (1 - p) / n));
}

} // namespace

void run_implicit_momentum(const experiment_options& options, experiment_result& result) {
  constexpr std::uint64_t groups = 40;
  figure f(
      "mean", "The mean path of asynchronous descent is one with momentum",
      "Mean weight over many runs of a quadratic of one coordinate, curvature 1 and step 0.5, whose workers "
      "take exponential times. The lines are descent with momentum 1 - 1/M and step 0.5 / M. Bars are "
      "standard errors.",
      {"updates"}, {"mean weight"});
  for (const std::uint32_t workers : {2U, 4U, 8U}) {
    const std::vector<double> exact = mean_path(workers, full_step, last);
    const std::uint64_t runs = options.quick ? 16 : workers == 4 ? 1000 : 250;
    const runs_of_workers all = run_many(workers, groups, runs, options);
    figure_series known{fmt::format("exact, {} workers", workers), series_look::line};
    figure_series found{fmt::format("measured, {} workers", workers)};
    for (std::size_t t = 0; t <= last; ++t) {
      const seeds_mean m = mean_of(all.means, [&](const std::vector<double>& path) { return path[t]; });
      known.add(t, exact[t]);
      found.add(t, m.mean, m.spread.error_of_mean());
      if (workers == 4 && t >= 1 && t <= 8)
        result.expect(fmt::format("mean weight of {} workers after {} updates", workers, t), "",
                      "recursion of the mean", exact[t], m, m.by_chance() + 1e-6);
    }
    claim_fit_and_order(all, result);
    f.series.push_back(std::move(known));
    f.series.push_back(std::move(found));
  }
  result.figures.push_back(std::move(f));
}

} // namespace mailgrad::lab
