#include <mailgrad/lab/experiments/quadratic_run.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numbers>

// Workers take local steps on a quadratic and send what they have moved. A weight of curvature h moves by b x
// from x, b = 1 - (1 - rate h)^steps, so the outer optimiser descends a quadratic of curvature b, with stale
// differences. In turn, M equal workers have a delay of M - 1 exactly, and recursions give the path.

namespace mailgrad::lab {

namespace {

constexpr std::uint64_t local_steps = 4;
constexpr std::size_t outer_dimension = 8;
constexpr double condition = 10;
constexpr double outer_momentum = 0.9;
constexpr double share = 0.05; ///< of the steepest weight, which one exchange moves

/// An outer optimiser and a cure of what it gets.
struct outer_way {
  const char* name;
  std::string_view outer;
  double rate;
  std::string_view cure;
};

constexpr outer_way outer_ways[] = {{"nesterov", "nesterov", 0.7, "none"},
                                    {"nesterov, mla", "nesterov", 0.7, "mla"},
                                    {"nesterov, heloco", "nesterov", 0.7, "heloco"},
                                    {"adam", "adam", 0.02, "none"},
                                    {"adam, cgad", "adam", 0.02, "cgad"}};
enum { plain, look_ahead, heading, adam, gated };

/// The rate of local steps that move the steepest weight by `share` of it.
double inner_rate() { return 1 - std::pow(1 - share, 1.0 / local_steps); }

double curvature(std::size_t k) {
  return std::pow(condition, -static_cast<double>(k) / static_cast<double>(outer_dimension - 1));
}

/// How far the weights are from the minimum after so many updates. No number counts as 1e6, as what has
/// diverged does.
double error_of(const outer_way& w, std::uint32_t workers, std::uint64_t updates, const char* delays,
                std::uint64_t seed, const experiment_options& options) {
  quadratic_case c = case_of(fmt::format("quadratic:dimension={},condition={}", outer_dimension, condition),
                             workers, delays, "async", inner_rate(), updates * local_steps, seed);
  c.cure = w.cure;
  c.local_steps = local_steps;
  c.outer = w.outer;
  c.outer_rate = w.rate;
  const std::vector<float> weights = run_quadratic(c, options).weights; // more numbers may lie behind them
  const double error = std::sqrt(mean_square(std::span(weights).first(outer_dimension)));
  return error < 1e6 ? error : 1e6;
}

/// One weight of the recursion, with a delay of `workers` - 1 updates once all have been heard.
struct axis_path {
  std::vector<double> sent; ///< after each update, and at first
  double x = 1, velocity = 0, mean = 0, square = 0;

  void by_nesterov(double u, double rate, double ahead) {
    velocity = outer_momentum * velocity + u;
    x -= rate * (u + outer_momentum * velocity);
    sent.push_back(x - rate * ahead * velocity);
  }
  void by_adam(double u, double rate, double update) {
    mean = 0.9 * mean + 0.1 * u;
    square = 0.999 * square + 0.001 * u * u;
    const double size = std::sqrt(square / (1 - std::pow(0.999, update)));
    x -= rate * mean / (1 - std::pow(0.9, update)) / (size + 1e-8);
    sent.push_back(x);
  }
};

/// What error_of() is for workers in turn, by recursion. HeLoCo has none: it couples the weights.
double exact_error(const outer_way& w, std::uint32_t workers, std::uint64_t updates) {
  const bool has_adam = w.outer == "adam", looks_ahead = w.cure == "mla", is_gated = w.cure == "cgad";
  double ahead = 0; // where the momentum alone leads in workers - 1 updates
  for (std::uint32_t t = 1; t < workers && looks_ahead; ++t) ahead += std::pow(outer_momentum, t + 1);
  double squares = 0;
  for (std::size_t k = 0; k < outer_dimension; ++k) {
    const double b = 1 - std::pow(1 - inner_rate() * curvature(k), static_cast<double>(local_steps));
    axis_path p{{1}};
    for (std::uint64_t t = 0; t < updates; ++t) {
      const std::uint64_t gap = std::min<std::uint64_t>(t, workers - 1);
      double u = b * p.sent[t - gap];
      const auto age = static_cast<double>(gap);
      if (is_gated) u *= std::exp(-0.1 * age) * (1 + std::cos(std::numbers::pi * age / 16)) / 2;
      if (has_adam)
        p.by_adam(u, w.rate, static_cast<double>(t + 1));
      else
        p.by_nesterov(u, w.rate, ahead);
    }
    squares += p.x * p.x;
  }
  return std::sqrt(squares / outer_dimension);
}

/// The median of the error over seeds, with workers of exponential times, and its standard deviation.
seeds_mean median_error(const outer_way& w, std::uint32_t workers, const experiment_options& options) {
  std::vector<double> all;
  for (std::uint64_t s = 0; s < (options.quick ? 5U : 15U); ++s)
    all.push_back(error_of(w, workers, 400, "exp", options.seed + s, options));
  std::ranges::nth_element(all, all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2));
  return {all[all.size() / 2], mean_over_seeds(all).spread};
}

void claim_outer_errors(const experiment_options& options, experiment_result& result) {
  for (const std::uint32_t workers : {1U, 5U, 9U})
    for (const std::size_t which : {plain, look_ahead, adam, gated}) {
      const outer_way& w = outer_ways[which];
      const double exact = exact_error(w, workers, 45); // whole rounds of all workers
      const double found = error_of(w, workers, 45, "constant:1", options.seed, options);
      result.expect(fmt::format("error after 45 updates, delay {}, {}", workers - 1, w.name), "", "recursion",
                    exact, found, 1e-3 * exact);
    }
  const auto median = [&](std::size_t which, std::uint32_t workers) {
    return median_error(outer_ways[which], workers, options);
  };
  const double without = median(plain, 5).mean;
  result.expect("error of 5 workers, mla", "", "a hundredth of that without", without / 100,
                median(look_ahead, 5), 0, relation::at_most);
  const double by_adam = median(adam, 9).mean;
  result.expect("error of 9 workers, adam with cgad", "", "a tenth of that without", by_adam / 10,
                median(gated, 9), 0, relation::at_most);
  result.expect("error of 5 workers with like data, heloco", "", "ten times that without", 10 * without,
                median(heading, 5), 0, relation::at_least);
}

} // namespace

void run_outer_cures(const experiment_options& options, experiment_result& result) {
  claim_outer_errors(options, result);
  figure f(
      "error", "Looking ahead along the outer momentum delays the overshooting",
      fmt::format("Distance from the minimum of a quadratic after 400 outer updates, median of {} seeds, "
                  "with workers of exponential times. Each sends what four local steps have moved, a "
                  "twentieth of the way along the steepest axis. What has diverged is drawn at 1e6.",
                  options.quick ? 5 : 15),
      {"workers", axis_scale::doubling}, {"distance from the minimum", axis_scale::logarithmic});
  for (const outer_way& w : outer_ways) {
    figure_series s{w.name, series_look::joined};
    for (const std::uint32_t workers : {2U, 4U, 8U, 16U})
      s.add(workers, median_error(w, workers, options).mean);
    f.series.push_back(std::move(s));
  }
  result.figures.push_back(std::move(f));
}

} // namespace mailgrad::lab
