#include <mailgrad/lab/experiments/quadratic_run.hpp>

#include <fmt/format.h>

#include <numeric>

// Worker i has the one sample b_i, and so the quadratic (x - b_i)^2 / 2, and takes t_i seconds for a step.
// The best weight for all is the mean of b. Asynchronous descent ends where fast workers pull it.

namespace mailgrad::lab {

namespace {

struct data_setting {
  std::string name;
  std::vector<double> times;
  std::vector<float> centres;

  double mean() const {
    return std::accumulate(centres.begin(), centres.end(), 0.0) / static_cast<double>(centres.size());
  }
  /// Where the pulls balance: the mean of b, weighted with 1 / t.
  double balance() const {
    double up = 0, down = 0;
    for (std::size_t i = 0; i < times.size(); ++i) up += centres[i] / times[i], down += 1 / times[i];
    return up / down;
  }
  std::string delays() const { return fmt::format("list:{}", fmt::join(times, ",")); }
};

struct compared_method {
  std::string name;
  bool weighs_alike; ///< or it ends where the fast workers pull it
  std::string policy;
  std::string cure = "none";
  double rate = 0.002;
};

/// The mean weight over the second half of a run.
double where_it_ends(const data_setting& of, const compared_method& m, const experiment_options& options) {
  const std::uint64_t steps = options.quick ? 12'000 : 40'000;
  double weights = 0, seconds = 0, last = 0, before = 0;
  std::uint64_t reads = 0;
  quadratic_case c =
      case_of("quadratic:dimension=1,start=0", static_cast<std::uint32_t>(of.times.size()), of.delays(),
              m.policy, m.rate,
              steps * (m.policy == "async" ? 1 : of.times.size()), // an update is made of several
              options.seed);
  c.cure = m.cure;
  c.targets = of.centres;
  c.on_read = [&](rank, instant when, std::span<const float> x) {
    const double now = in_seconds(when);
    if (++reads > c.steps / 2) weights += before * (now - last), seconds += now - last;
    last = now;
    before = x[0];
  };
  run_quadratic(c, options);
  return weights / seconds;
}

/// Rennala takes four that are fresh, whoever sent them. Malenia takes as many as there are workers, twice.
std::vector<compared_method> methods_for(const data_setting& s) {
  const std::string malenia = fmt::format("malenia:{}", 2 * s.times.size());
  return {{"async", false, "async"},
          {"rennala:4", false, "rennala:4"},
          {"async, rescaled", true, "async", "rescaled"},
          {"sync", true, "sync"},
          {malenia, true, malenia, "none", 0.02},
          {"ringleader", true, "ringleader"}};
}

/// The best weight is known, and so is where `async` ends. Rennala is only known to be no nearer.
void claim_end(const data_setting& s, const compared_method& m, double end, experiment_result& result) {
  const std::string what = fmt::format("{}, {}", m.name, s.name);
  if (m.weighs_alike)
    result.expect("weight at the end, " + what, "", "the best: mean of the centres", s.mean(), end,
                  0.01 * s.mean());
  else if (m.policy == "async")
    result.expect("weight at the end, " + what, "", "sum(b/t) / sum(1/t)", s.balance(), end,
                  0.01 * s.balance());
  else
    result.expect("distance from the best weight, " + what, "", "that of async", s.mean() - s.balance(),
                  s.mean() - end, 0.01, relation::at_least);
}

} // namespace

void run_unlike_data(const experiment_options& options, experiment_result& result) {
  const std::vector<data_setting> settings{
      {"steps of 1, 2, 4 s, centres 0, 1, 4", {1, 2, 4}, {0, 1, 4}},
      {"steps of 1, 1, 1, 10 s, centres 0, 0, 0, 1", {1, 1, 1, 10}, {0, 0, 0, 1}},
      {"steps of 1, ..., 8 s, centres 0, ..., 7", {1, 2, 3, 4, 5, 6, 7, 8}, {0, 1, 2, 3, 4, 5, 6, 7}}};
  const char* const shown[] = {"t = 1, 2, 4", "t = 1, 1, 1, 10", "t = 1, ..., 8"};
  figure f(
      "end", "Where training on unlike data ends",
      "Mean weight in the second half of runs of a quadratic whose workers have samples of their own and "
      "take t seconds for a step, over the best weight for all data. Rennala takes four fresh gradients, "
      "whoever sent them; malenia twice as many as there are workers, by their harmonic mean.",
      {"method"}, {"weight at the end / best weight"}, {{"best for all data", series_look::line}});
  f.x.marks = {"async", "rennala", "rescaled", "sync", "malenia", "ringleader"};
  f.series[0].points = {{0.6, 1}, {static_cast<double>(f.x.marks.size()) + 0.4, 1}};
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const data_setting& s = settings[i];
    f.series.push_back({shown[i]});
    double place = 0.15 * (static_cast<double>(i) - 1); // points of one method stand side by side
    for (const compared_method& m : methods_for(s)) {
      const double end = where_it_ends(s, m, options);
      claim_end(s, m, end, result);
      f.series.back().add(place += 1, end / s.mean());
    }
  }
  result.figures.push_back(std::move(f));
}

} // namespace mailgrad::lab
