#include <mailgrad/lab/experiments/quadratic_run.hpp>

#include <fmt/format.h>

// Producers that are always at work, a first-come queue that is kept full, and a consumer that makes a
// version of B items: the workers of the policy queue:B,Q. At each update P - 1 items are being made and Q +
// 1 - B stay in the queue. All of them age by one version, whatever the times are.

namespace mailgrad::lab {

namespace {

struct queue_setting {
  std::uint32_t producers, queue;
  std::uint32_t items; ///< of a version

  double mean() const { return (static_cast<double>(producers) + queue - items) / items; }
};

constexpr queue_setting queue_settings[] = {{8, 4, 2}, {8, 8, 4}, {3, 5, 1}, {8, 16, 8}};

struct queue_law {
  const char *name, *delays;
};

constexpr queue_law queue_laws[] = {{"exponential", "exp"},
                                    {"nearly equal", "gamma:cv=0.1"},
                                    {"heavy tail", "pareto:alpha=2"},
                                    {"producers of unlike speed", "constant:sqrt(i)"}};

seeds_mean staleness_of(const queue_setting& s, const queue_law& l, const experiment_options& options) {
  return mean_over_seeds(options, options.quick ? 2 : 5, [&](std::uint64_t seed) {
    const std::string policy = fmt::format("queue:{},{}", s.items, s.queue);
    const quadratic_case c = case_of("quadratic:dimension=1,start=0", s.producers, l.delays, policy, 1e-3,
                                     options.quick ? 20'000 : 100'000, seed);
    return run_quadratic(c, options).report.staleness.mean();
  });
}

} // namespace

void run_queue_staleness(const experiment_options& options, experiment_result& result) {
  for (const queue_setting& s : queue_settings)
    for (const queue_law& l : queue_laws)
      result.expect(fmt::format("P = {}, Q = {}, B = {}, {}", s.producers, s.queue, s.items, l.name),
                    "versions", "(P + Q - B) / B", s.mean(), staleness_of(s, l, options),
                    options.quick ? 0.005 : 0.001);
  figure f("queue", "Each place in the queue is paid for in staleness",
           "Mean staleness of what is consumed, if eight producers that are always at work feed a first-come "
           "queue of Q, and each version takes two items. The line is (P + Q - B) / B.",
           {"places Q in the queue"}, {"mean staleness [versions]"},
           {{"(P + Q - B) / B", series_look::line}});
  for (const queue_law& l : queue_laws) f.series.push_back({l.name});
  for (const std::uint32_t queue : {2U, 4U, 8U, 16U, 32U}) {
    const queue_setting s{8, queue, 2};
    f.series[0].add(queue, s.mean());
    for (std::size_t i = 0; i < std::size(queue_laws); ++i)
      f.series[i + 1].add(queue, staleness_of(s, queue_laws[i], options));
  }
  result.figures.push_back(std::move(f));
}

} // namespace mailgrad::lab
