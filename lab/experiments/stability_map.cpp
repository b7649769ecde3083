#include <mailgrad/lab/experiments/quadratic_run.hpp>
#include <mailgrad/lab/theory.hpp>

#include <fmt/format.h>

#include <algorithm>

// Equal workers of constant speed take turns, so that each gradient of M workers is M - 1 versions old. Each
// coordinate of the model has a curvature of its own, so one run tries a row of steps.

namespace mailgrad::lab {

namespace {

constexpr double first_weight = 1e-12; ///< so that 60 orders of magnitude are left to grow

struct treatment {
  std::string optimizer = "sgd";
  std::string cure = "none";
};

/// How fast each step makes the weights grow: pairs of the step and the logarithm of growth for each update.
std::vector<std::pair<double, double>> growth(const treatment& by, unsigned tau, double from, double to,
                                              std::size_t steps, std::uint64_t updates,
                                              const experiment_options& options) {
  quadratic_case c = case_of(fmt::format("quadratic:dimension={},curvature={:.9g},condition={:.9g},start={}",
                                         steps, to, to / from, first_weight),
                             tau + 1, "constant:1", "async", 1, updates, 1);
  c.optimizer = by.optimizer;
  c.cure = by.cure;
  const quadratic_outcome made = run_quadratic(c, options);
  std::vector<std::pair<double, double>> all;
  for (std::size_t j = 0; j < steps; ++j) {
    const double a = to * std::pow(to / from, static_cast<double>(j) / static_cast<double>(steps - 1) - 1);
    const double grown = std::max(std::abs(static_cast<double>(made.weights[j])), 1e-37) / first_weight;
    all.emplace_back(a, std::log(grown) / static_cast<double>(updates));
  }
  return all;
}

/// The step without growth, on the straight line that fits best.
double root_of(const std::vector<std::pair<double, double>>& rates) {
  const auto n = static_cast<double>(rates.size());
  double x = 0, y = 0, xx = 0, xy = 0;
  for (const auto& [a, r] : rates) x += a / n, y += r / n;
  for (const auto& [a, r] : rates) xx += (a - x) * (a - x), xy += (a - x) * (r - y);
  return x - y * xx / xy;
}

/// Measures the threshold between 96 % and 104 % of where it should be.
double measured_threshold(const treatment& by, unsigned tau, double exact,
                          const experiment_options& options) {
  const std::uint64_t updates = (options.quick ? 700ULL : 1400ULL) * (tau + 1);
  return root_of(growth(by, tau, 0.96 * exact, 1.04 * exact, 41, updates, options));
}

void claim_threshold(unsigned tau, double beta, const experiment_options& options, experiment_result& result,
                     figure_series& measured) {
  const double exact = largest_stable_step(tau, beta);
  const treatment by{beta == 0 ? "sgd" : fmt::format("momentum:momentum={}", beta)};
  const double found = measured_threshold(by, tau, exact, options);
  measured.add(tau + 1, found);
  result.expect(beta == 0 ? fmt::format("largest stable step, delay {}", tau)
                          : fmt::format("the same, delay {}, momentum {}", tau, beta),
                "1 / curvature", beta == 0 ? "closed form" : "roots of the polynomial", exact, found,
                (options.quick ? 0.01 : 0.005) * exact);
}

/// A cure divides the step by the delay, or by one more, so that a step fits every delay.
void claim_cured_threshold(const char* cure, unsigned tau, double divisor, const experiment_options& options,
                           experiment_result& result) {
  const double exact = divisor * largest_stable_step(tau);
  result.expect(fmt::format("the same, delay {}, cure {}", tau, cure), "1 / curvature", "closed form", exact,
                measured_threshold({"sgd", cure}, tau, exact, options),
                (options.quick ? 0.01 : 0.005) * exact);
}

/// Tells for a row of steps whether the weights grow.
void map_row(unsigned tau, double exact, const experiment_options& options, figure_series& stable,
             figure_series& unstable) {
  for (const auto& [a, rate] : growth({}, tau, exact / 4, exact * 2.5, 14, 40 * (tau + 1), options))
    (rate < 0 ? stable : unstable).add(tau + 1, a);
}

} // namespace

void run_stability_map(const experiment_options& options, experiment_result& result) {
  const std::vector<unsigned> delays =
      options.quick ? std::vector<unsigned>{0, 1, 2, 4, 8} : std::vector<unsigned>{0, 1, 2, 3, 4, 8, 16, 32};
  figure f(
      "map", "Where descent with a fixed delay is stable",
      "Each mark is a coordinate of a quadratic, trained by equal workers that take turns: its step times "
      "its curvature, and whether it had shrunk or grown after 40 rounds. The line is "
      "2 sin(pi / (4 tau + 2)), tau = workers - 1.",
      {"workers = delay + 1", axis_scale::doubling}, {"step x curvature", axis_scale::logarithmic},
      {{"closed form", series_look::line}, {"measured limit"}, {"shrinks"}, {"grows"}});
  figure_series momentum;
  for (const unsigned tau : delays) {
    const double exact = largest_stable_step(tau, 0);
    f.series[0].add(tau + 1, exact);
    claim_threshold(tau, 0, options, result, f.series[1]);
    map_row(tau, exact, options, f.series[2], f.series[3]);
  }
  for (const double beta : {0.5, 0.9})
    for (const unsigned tau : {1U, 4U}) claim_threshold(tau, beta, options, result, momentum);
  for (const unsigned tau : {1U, 4U, 8U}) {
    claim_cured_threshold("inverse", tau, tau, options, result);
    claim_cured_threshold("dynsgd", tau, tau + 1, options, result);
  }
  result.figures.push_back(std::move(f));
}

} // namespace mailgrad::lab
