#include <mailgrad/lab/experiments/all.hpp>
#include <mailgrad/lab/experiments/quadratic_run.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

// Worker i has the one sample b_i, and so the quadratic (x - b_i)^2 / 2, and takes t_i seconds for a step.
// The best weight for all is the mean of b. Asynchronous descent ends where fast workers pull it.

namespace mailgrad::lab {

namespace {

struct setting {
  std::string name;
  std::vector<double> times;
  std::vector<float> centres;

  double mean() const {
    double sum = 0;
    for (const float b : centres) sum += b;
    return sum / static_cast<double>(centres.size());
  }
  /// Where the pulls balance: the mean of b, weighted with 1 / t.
  double balance() const {
    double up = 0, down = 0;
    for (std::size_t i = 0; i < times.size(); ++i) up += centres[i] / times[i], down += 1 / times[i];
    return up / down;
  }
  std::string delays() const {
    std::string text = "list:";
    for (std::size_t i = 0; i < times.size(); ++i) text += fmt::format("{}{}", i == 0 ? "" : ",", times[i]);
    return text;
  }
};

struct method {
  std::string policy;
  std::string cure = "none";
  double rate = 0.002;
};

/// The mean weight over the second half of a run.
double where_it_ends(const setting& of, const method& m, const experiment_options& options) {
  const std::uint64_t steps = options.quick ? 12'000 : 40'000;
  double weights = 0, seconds = 0, last = 0, before = 0;
  std::uint64_t reads = 0;
  quadratic_case c;
  c.model = "quadratic:dimension=1,start=0";
  c.targets = of.centres;
  c.workers = static_cast<std::uint32_t>(of.times.size());
  c.delays = of.delays();
  c.policy = m.policy;
  c.cure = m.cure;
  c.learning_rate = m.rate;
  c.steps = steps * (m.policy == "async" ? 1 : of.times.size()); // an update is made of several
  c.seed = options.seed;
  c.on_read = [&](rank, instant when, std::span<const float> x) {
    const double now = in_seconds(when);
    if (++reads > c.steps / 2) weights += before * (now - last), seconds += now - last;
    last = now;
    before = x[0];
  };
  run_quadratic(c, options);
  return weights / seconds;
}

/// Methods that make updates of several gradients of each worker: where they end, and where they should.
void run_batches(const setting& s, const experiment_options& options, experiment_result& result, figure& f) {
  const double rennala = where_it_ends(s, {"rennala:4"}, options);
  const double malenia =
      where_it_ends(s, {fmt::format("malenia:{}", 2 * s.times.size()), "none", 0.02}, options);
  const double ringleader = where_it_ends(s, {"ringleader"}, options);
  const double pulled = s.mean() - s.balance();
  result.claims.push_back({"rennala, off the mean of b, " + s.name, "", "that of the balance of pulls",
                           pulled, s.mean() - rennala, claim::unknown, 0.01, relation::at_least});
  result.claims.push_back(
      {"malenia, " + s.name, "", "mean of b", s.mean(), malenia, claim::unknown, 0.01 * s.mean()});
  result.claims.push_back(
      {"ringleader, " + s.name, "", "mean of b", s.mean(), ringleader, claim::unknown, 0.01 * s.mean()});
  f.series[0].points.push_back({s.mean(), s.mean()});
  f.series[1].points.push_back({s.mean(), s.balance()});
  f.series[2].points.push_back({s.mean(), rennala});
  f.series[3].points.push_back({s.mean(), malenia});
  f.series[4].points.push_back({s.mean(), ringleader});
  std::ranges::sort(f.series[0].points, {}, &figure_point::x);
}

} // namespace

void run_unlike_data(const experiment_options& options, experiment_result& result) {
  const std::vector<setting> settings{
      {"t = 1, 2, 4 and b = 0, 1, 4", {1, 2, 4}, {0, 1, 4}},
      {"t = 1, 1, 1, 10 and b = 0, 0, 0, 1", {1, 1, 1, 10}, {0, 0, 0, 1}},
      {"t = 1, ..., 8 and b = 0, ..., 7", {1, 2, 3, 4, 5, 6, 7, 8}, {0, 1, 2, 3, 4, 5, 6, 7}}};
  figure f{
      "end",
      "Where training on unlike data ends",
      "Mean weight in the second half of runs of a quadratic whose workers have samples b of their own and "
      "take t seconds for a step. The best weight for all data is the mean of b.",
      {"mean of b"},
      {"weight at the end"},
      {{"best for all data", series_look::line},
       {"balance of pulls"},
       {"async"},
       {"async, rescaled"},
       {"sync"}}};
  figure of_batches{"end-of-batches",
                    "Where updates of several gradients end on unlike data",
                    "As above, with methods whose updates are made of several gradients. Rennala takes four "
                    "that are fresh, whoever sent them. Malenia and Ringleader weigh all workers alike.",
                    {"mean of b"},
                    {"weight at the end"},
                    {{"best for all data", series_look::line},
                     {"balance of pulls"},
                     {"rennala"},
                     {"malenia"},
                     {"ringleader"}}};
  for (const setting& s : settings) {
    const double async = where_it_ends(s, {"async"}, options);
    const double rescaled = where_it_ends(s, {"async", "rescaled"}, options);
    const double sync = where_it_ends(s, {"sync"}, options);
    result.claims.push_back({"async, " + s.name, "", "sum(b/t) / sum(1/t)", s.balance(), async,
                             claim::unknown, 0.01 * s.balance()});
    result.claims.push_back(
        {"async, rescaled, " + s.name, "", "mean of b", s.mean(), rescaled, claim::unknown, 0.01 * s.mean()});
    result.claims.push_back(
        {"sync, " + s.name, "", "mean of b", s.mean(), sync, claim::unknown, 0.01 * s.mean()});
    f.series[0].points.push_back({s.mean(), s.mean()});
    f.series[1].points.push_back({s.mean(), s.balance()});
    f.series[2].points.push_back({s.mean(), async});
    f.series[3].points.push_back({s.mean(), rescaled});
    f.series[4].points.push_back({s.mean(), sync});
    run_batches(s, options, result, of_batches);
  }
  std::ranges::sort(f.series[0].points, {}, &figure_point::x);
  result.figures.push_back(std::move(f));
  result.figures.push_back(std::move(of_batches));
}

} // namespace mailgrad::lab
