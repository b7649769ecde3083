#include <mailgrad/lab/experiments/quadratic_run.hpp>

#include <fmt/format.h>

// The gap is how far the weights that a worker is sent have moved since it was sent some before, as a root
// mean square. M equal workers take turns, so M updates lie between. The gradients are noise alone (curvature
// 0), so that the gap of three methods is known exactly.

namespace mailgrad::lab {

namespace {

constexpr std::size_t gap_coordinates = 100;
constexpr double gap_rate = 0.01, beta = 0.9;

/// A random walk.
double exact_sgd(double m) { return gap_rate * std::sqrt(m); }

/// Sums of a velocity whose neighbours are alike.
double exact_momentum(double m) {
  double sum = m;
  for (double k = 1; k < m; ++k) sum += 2 * (m - k) * std::pow(beta, k);
  return gap_rate * std::sqrt(sum / (1 - beta * beta));
}

/// What is sent moves by g + beta v, with v of the one worker; between two turns each worker moves it once.
double exact_dana(double m) {
  const double one = std::pow(beta, 4) / (1 - beta * beta) + (1 + beta) * (1 + beta);
  return gap_rate * std::sqrt(m * one);
}

struct gap_method {
  const char *name, *optimizer, *cure;
  double (*exact)(double workers); ///< null: none is known
};

constexpr gap_method gap_methods[] = {
    {"sgd", "sgd", "none", exact_sgd},
    {"momentum 0.9", "momentum:momentum=0.9", "none", exact_momentum},
    {"dana-zero:0.9", "sgd", "dana-zero:0.9", exact_dana},
    {"momentum 0.9, gap-aware", "momentum:momentum=0.9", "gap-aware", nullptr},
    {"sgd, dc-asgd:2", "sgd", "dc-asgd:2", nullptr}};

double measured_gap(const gap_method& way, std::uint32_t workers, std::uint64_t seed,
                    const experiment_options& options) {
  const std::uint64_t burn_in = 100 * workers, updates = options.quick ? 3'000 : 12'000;
  std::vector<std::vector<float>> sent(workers);
  double sum = 0;
  std::uint64_t reads = 0, counted = 0;
  quadratic_case c =
      case_of(fmt::format("quadratic:dimension={},curvature=0,noise=1,start=0", gap_coordinates), workers,
              "constant:1", "async", gap_rate, burn_in + updates, seed);
  c.optimizer = way.optimizer;
  c.cure = workers == 1 ? "none" : way.cure;
  c.on_read = [&](rank worker, instant, std::span<const float> x) {
    std::vector<float>& before = sent[worker.value];
    if (++reads > burn_in) {
      for (std::size_t j = 0; j < gap_coordinates; ++j) sum += std::pow(double{x[j]} - before[j], 2);
      ++counted;
    }
    before.assign(x.begin(), x.begin() + gap_coordinates);
  };
  run_quadratic(c, options);
  return std::sqrt(sum / static_cast<double>(counted) / gap_coordinates);
}

// Pairs of single gradients, of workers with exponential times. Under dana-zero workers compute at weights
// that no version has, and dana-slim makes the same steps. Here the curvature h is 1, so a gradient is
// the noise of its batch and h times the weights, which are small beside it.

constexpr gap_method pair_methods[] = {
    {"sgd", "sgd", "none", nullptr},
    {"momentum 0.9", "momentum:momentum=0.9", "none", nullptr},
    {"dana-slim:0.9", "sgd", "dana-slim:0.9", nullptr},
    {"momentum 0.9, gap-aware", "momentum:momentum=0.9", "gap-aware", nullptr},
    {"sgd, dc-asgd:2", "sgd", "dc-asgd:2", nullptr}};

std::vector<sampled_figures> pairs_of(const gap_method& way, const experiment_options& options) {
  quadratic_case c =
      case_of(fmt::format("quadratic:dimension={},curvature=1,noise=1,start=0", gap_coordinates), 8, "exp",
              "async", 0.005, options.quick ? 6'000 : 24'000, options.seed);
  c.optimizer = way.optimizer;
  c.cure = way.cure;
  c.sample_gap = 10;
  return run_quadratic(c, options).report.sampled;
}

/// What a gap lets expect of 1 - cosine to first order: a gradient of length |g| turns by the part of h gap
/// that stands upright on it, and |g|^2 is the noise.
double first_order(double gap) { return gap * gap * (1 - 1.0 / gap_coordinates) / 2; }

void draw_pairs(const experiment_options& options, experiment_result& result) {
  figure lags("pairs-lag", "How far weights move within a lag: single gradients",
              "A point is a sampled gradient of one of 8 workers with exponential times, on a quadratic with "
              "noise. The learning rate is 0.005 for all.",
              {"lag [updates]"}, {"gap [weights, root mean square]", axis_scale::logarithmic});
  figure cosines(
      "pairs-cosine", "What the gap does to a gradient",
      "The same gradients: 1 - the cosine between each and a fresh one of the same batch. Whatever "
      "the lag and the method, the gap alone decides. The line is exact to first order.",
      {"gap [weights, root mean square]", axis_scale::logarithmic}, {"1 - cosine", axis_scale::logarithmic});
  double least = claim::unknown, most = claim::unknown;
  for (const gap_method& way : pair_methods) {
    figure_series by_lag{way.name}, by_gap{way.name};
    double measured = 0, expected = 0;
    for (const sampled_figures& x : pairs_of(way, options)) {
      if (!x.cosine || x.gap <= 0 || *x.cosine >= 1) continue;
      by_lag.add(x.lag, x.gap);
      by_gap.add(x.gap, 1 - *x.cosine);
      measured += 1 - *x.cosine;
      expected += first_order(x.gap);
      least = std::fmin(least, x.gap);
      most = std::fmax(most, x.gap);
    }
    result.expect(fmt::format("1 - cosine over what the gap lets expect, {}", way.name), "",
                  "first order of the cosine", 1, measured / expected, options.quick ? 0.08 : 0.05);
    lags.series.push_back(std::move(by_lag));
    cosines.series.push_back(std::move(by_gap));
  }
  cosines.series.push_back(
      {"first order", series_look::line, {{least, first_order(least)}, {most, first_order(most)}}});
  result.figures.push_back(std::move(lags));
  result.figures.push_back(std::move(cosines));
}

} // namespace

void run_gap_and_lag(const experiment_options& options, experiment_result& result) {
  constexpr std::uint32_t most = 16;
  const std::uint64_t seeds = options.quick ? 2 : 4;
  figure f(
      "gap", "How far weights move within one lag",
      "Distance between weights that a worker is sent one after the other, as a root mean square over "
      "coordinates. Workers take turns, gradients are normal noise, and the learning rate is 0.01 for all. "
      "Lines are exact.",
      {"updates in between = workers", axis_scale::doubling},
      {"gap [weights, root mean square]", axis_scale::logarithmic});
  figure_series lines{"exact", series_look::line}; // one, since each goes through the points of its method
  std::vector<double> last;                        // of most workers, by method
  for (const gap_method& way : gap_methods) {
    figure_series found{way.name};
    for (const std::uint32_t workers : {2U, 4U, 8U, most}) {
      const seeds_mean m = mean_over_seeds(
          options, seeds, [&](std::uint64_t seed) { return measured_gap(way, workers, seed, options); });
      found.add(workers, m);
      if (way.exact)
        result.expect(fmt::format("gap of {} workers, {}", workers, way.name), "", "closed form",
                      way.exact(workers), m, 0.02 * way.exact(workers));
      if (workers == most) last.push_back(m.mean);
    }
    f.series.push_back(std::move(found));
    for (std::uint32_t m = 2; way.exact && m <= most; ++m) lines.add(m, way.exact(m));
    if (way.exact) lines.add(0, claim::unknown);
  }
  f.series.push_back(std::move(lines));
  const seeds_spread of_ratio{claim::unknown, seeds};
  result.expect(fmt::format("gap of {} workers, dana-zero over momentum", most), "",
                "Hakimi et al.: it is smaller", 0.5, {last[2] / last[1], of_ratio}, 0, relation::at_most);
  result.expect(fmt::format("gap of {} workers, gap-aware over momentum", most), "",
                "Barkai et al.: it is smaller", 1, {last[3] / last[1], of_ratio}, 0, relation::at_most);
  result.figures.push_back(std::move(f));
  draw_pairs(options, result);
}

} // namespace mailgrad::lab
