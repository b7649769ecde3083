#include <mailgrad/lab/experiments/quadratic_run.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <numbers>
#include <numeric>

// Gradients travel in lossy wire formats, from workers of constant speed that take turns, so each is M - 1
// versions old. The experiment repeats what the formats do in double precision, with code of its own.

namespace mailgrad::lab {

namespace {

constexpr std::size_t size_of_problem = 16; ///< a shard has no gap behind so many

/// How gradients travel.
struct wire_way {
  const char* format;
  double share; ///< of the numbers that are sent; 0: each is the mean of those with its sign
  bool feedback;

  std::string name() const { return fmt::format("{}{}", format, feedback ? "" : ", no feedback"); }
};

constexpr wire_way quarter{"top-k:0.25", 0.25, true}, quarter_alone{"top-k:0.25", 0.25, false};
constexpr wire_way wire_ways[] = {quarter, quarter_alone, {"1-bit", 0, true}, {"1-bit", 0, false}};

/// A quadratic whose curvature falls from 1 to 1 / condition, from 1 away from its minimum in each
/// coordinate.
struct problem {
  double condition = 10;
  double rate = 0.05;
  std::vector<float> targets{}; ///< the centre of each worker's own quadratic; their mean is 0

  double curvature(std::size_t k) const {
    return std::pow(condition, (static_cast<double>(k) + 1 - size_of_problem) / (size_of_problem - 1.0));
  }
};

/// How far the weights are from the minimum after so many updates. What has diverged counts as 1e6.
double error_of(const problem& p, const wire_way& w, std::uint32_t workers, std::uint64_t updates,
                const experiment_options& options) {
  quadratic_case c = case_of(fmt::format("quadratic:dimension={},condition={}", size_of_problem, p.condition),
                             workers, "constant:1", "async", p.rate, updates, 1);
  c.targets = p.targets;
  c.wire = {parse_wire_format(w.format), w.feedback};
  const std::vector<float> weights = run_quadratic(c, options).weights;
  const double error = std::sqrt(mean_square(std::span(weights).first(size_of_problem)));
  return error < 1e6 ? error : 1e6;
}

/// What arrives of `p`.
std::vector<double> received(const wire_way& w, const std::vector<double>& p) {
  std::vector<double> q(p.size());
  if (w.share > 0) {
    std::vector<std::size_t> order(p.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::ranges::greater{}, [&](std::size_t k) { return std::abs(p[k]); });
    const auto sent = static_cast<std::size_t>(std::lround(w.share * static_cast<double>(p.size())));
    for (std::size_t i = 0; i < sent; ++i) q[order[i]] = p[order[i]];
    return q;
  }
  double sums[2] = {}, counts[2] = {}; // of negative numbers and of others
  for (const double x : p) sums[x >= 0] += x, counts[x >= 0] += 1;
  std::ranges::transform(p, q.begin(), [&](double x) { return sums[x >= 0] / counts[x >= 0]; });
  return q;
}

/// What error_of() is, by recursion.
double exact_error(const problem& p, const wire_way& w, std::uint32_t workers, std::uint64_t updates) {
  std::vector<std::vector<double>> versions{std::vector<double>(size_of_problem, 1.0)};
  std::vector<std::vector<double>> lacks(workers, std::vector<double>(size_of_problem, 0.0));
  for (std::uint64_t t = 0; t < updates; ++t) {
    const std::size_t worker = t % workers;
    const std::vector<double>& read = versions[t - std::min<std::uint64_t>(t, workers - 1)];
    std::vector<double> g(size_of_problem);
    for (std::size_t k = 0; k < size_of_problem; ++k)
      g[k] = p.curvature(k) * (read[k] - (p.targets.empty() ? 0 : p.targets[worker])) + lacks[worker][k];
    const std::vector<double> q = received(w, g);
    std::vector<double> next = versions.back();
    for (std::size_t k = 0; k < size_of_problem; ++k) {
      if (w.feedback) lacks[worker][k] = g[k] - q[k];
      next[k] -= p.rate * q[k];
    }
    versions.push_back(std::move(next));
  }
  return std::sqrt(mean_square(versions.back()));
}

/// Errors against a recursion, and what feedback does for workers of unlike data.
void claim_compressed_errors(const experiment_options& options, experiment_result& result) {
  for (const std::uint32_t workers : {1U, 5U})
    for (const wire_way& w : wire_ways) {
      const problem p;
      const double exact = exact_error(p, w, workers, 60);
      result.expect(fmt::format("error after 60 updates, delay {}, {}", workers - 1, w.name()), "",
                    "recursion", exact, error_of(p, w, workers, 60, options), 1e-3 * exact);
    }
  // At the minimum the gradients of workers with unlike data differ from 0, and add up to 0. Each sends its
  // largest numbers, along the steepest axes, where the sum is 0: what it keeps of the others moves them.
  const problem unlike{10, 0.05, {-3, -1, 1, 3}};
  const double without = error_of(unlike, quarter_alone, 4, 4000, options);
  result.expect("4 workers of unlike data end at, with feedback", "", "a third of that without", without / 3,
                error_of(unlike, quarter, 4, 4000, options), 0, relation::at_most);
}

/// The largest step with which the weights come nearer to the minimum, if all axes are alike.
double stable_step_over(const wire_way& w, std::uint32_t workers, const experiment_options& options) {
  const std::uint64_t updates = options.quick ? 1500 : 3000;
  double stable = 0.01, unstable = 4; // 1 / curvature
  for (int i = 0; i < (options.quick ? 10 : 14); ++i) {
    const double middle = std::sqrt(stable * unstable);
    (error_of({1, middle}, w, workers, updates, options) < 1 ? stable : unstable) = middle;
  }
  return std::sqrt(stable * unstable);
}

void claim_steps(const experiment_options& options, experiment_result& result) {
  figure f("step", "Where gradients are stale, compression costs less",
           "The largest stable step of a quadratic whose axes are alike, with top-k and error feedback, by "
           "workers in turn. The line is 2 sin(pi / (4 M - 2)), which holds without compression.",
           {"workers M", axis_scale::doubling},
           {"largest stable step [1 / curvature]", axis_scale::logarithmic},
           {{"closed form, all are sent", series_look::line}});
  const std::vector<std::uint32_t> counts =
      options.quick ? std::vector<std::uint32_t>{1, 16} : std::vector<std::uint32_t>{1, 2, 4, 8, 16};
  std::vector<double> kept; // of the step, if a quarter is sent
  for (const std::uint32_t m : counts) f.series[0].add(m, 2 * std::sin(std::numbers::pi / (4.0 * m - 2)));
  for (const auto& [format, share] : {std::pair{"top-k:1", 1.0}, {"top-k:0.5", 0.5}, {"top-k:0.25", 0.25}}) {
    figure_series s{format, series_look::joined};
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const double exact = f.series[0].points[i].y;
      const double found = stable_step_over({format, share, true}, counts[i], options);
      s.add(counts[i], found);
      if (share == 0.25) kept.push_back(found / exact);
      if (share < 1 && !(share == 0.5 && counts[i] == 16)) continue;
      result.expect(fmt::format("largest stable step, delay {}, {}", counts[i] - 1, format), "1 / curvature",
                    "closed form without compression", exact, found, (options.quick ? 0.02 : 0.01) * exact);
    }
    f.series.push_back(std::move(s));
  }
  result.expect("share of that step if a quarter is sent, delay 15", "", "twice that of delay 0",
                2 * kept.front(), kept.back(), 0, relation::at_least);
  result.figures.push_back(std::move(f));
}

} // namespace

void run_compressed_gradients(const experiment_options& options, experiment_result& result) {
  claim_compressed_errors(options, result);
  claim_steps(options, result);
  const std::uint64_t seeds = options.quick ? 3 : 10;
  figure f("noise", "With error feedback, what compression adds to the noise grows with the delay",
           fmt::format(
               "Distance from the minimum after 2000 updates of rate 0.05 with noise of deviation 1, root "
               "mean square over {} seeds, with workers of exponential times and like data: what is fed back "
               "late adds to the noise, and what is lost does not.",
               seeds),
           {"workers", axis_scale::doubling}, {"distance from the minimum"});
  const wire_way noisy[] = {{"float32", 0, true}, quarter, {"1-bit", 0, true}, quarter_alone};
  for (const wire_way& w : noisy) {
    figure_series s{w.name(), series_look::joined};
    for (const std::uint32_t workers : {2U, 4U, 8U, 16U, 32U}) {
      std::vector<float> all;
      for (std::uint64_t seed = 0; seed < seeds; ++seed) {
        quadratic_case c =
            case_of(fmt::format("quadratic:dimension={},condition=10,noise=1,start=0", size_of_problem),
                    workers, "exp", "async", 0.05, 2000, options.seed + seed);
        c.wire = {parse_wire_format(w.format), w.feedback};
        const std::vector<float> weights = run_quadratic(c, options).weights;
        all.insert(all.end(), weights.begin(), weights.begin() + size_of_problem);
      }
      s.add(workers, std::sqrt(mean_square(all)));
    }
    f.series.push_back(std::move(s));
  }
  result.figures.push_back(std::move(f));
}

} // namespace mailgrad::lab
