#include <mailgrad/lab/experiments/all.hpp>
#include <mailgrad/lab/experiments/quadratic_run.hpp>
#include <mailgrad/lab/theory/order_statistics.hpp>

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

// Learners of which each is down for a share of the time, at moments of its own. A merge takes all who are
// up, but no fewer than a quorum of K. Goodput is the work that merges take, as a share of what n learners
// that are never down would do. Outages last much longer than a step, so who is up at a merge is up
// independently of the others with probability a.

namespace mailgrad::lab {

namespace {

struct setting {
  std::uint32_t learners;
  std::uint32_t quorum;
  double up; ///< the share of its time
};

constexpr setting settings[] = {{8, 4, 0.9}, {8, 8, 0.9}, {16, 8, 0.95}, {4, 3, 0.8}};

constexpr double grace = 0.002;

/// Seconds, in which each learner has one outage. A step that an outage interrupts goes on afterwards, which
/// is a smaller part of a longer period.
double period_of(const experiment_options& options) { return options.quick ? 400 : 1600; }

/// The share over one period, in which each learner is down once. A learner reads weights when a merge has
/// taken its work.
double goodput_of(const setting& s, const std::string& policy, std::uint64_t seed,
                  const experiment_options& options) {
  const double period = period_of(options);
  std::uint64_t merged = 0;
  bool over = false;
  quadratic_case c;
  c.model = "quadratic:dimension=1,start=0";
  c.workers = s.learners;
  c.delays = fmt::format("outages:every={},lasts={},time=1", period, (1 - s.up) * period);
  c.policy = policy;
  c.learning_rate = 1e-3;
  c.steps = std::uint64_t{2} * s.learners * static_cast<std::uint64_t>(period); // there is no time for more
  c.seed = seed;
  c.on_read = [&](rank, instant when, std::span<const float>) {
    over = in_seconds(when) > period;
    if (when > instant{0} && !over) ++merged;
  };
  c.ends_early = [&] { return over; };
  run_quadratic(c, options);
  return static_cast<double>(merged) / (period * s.learners);
}

seeds_mean over_seeds(const setting& s, const std::string& policy, const experiment_options& options) {
  std::vector<double> all;
  for (std::uint64_t seed = 0; seed < (options.quick ? 60U : 200U); ++seed)
    all.push_back(goodput_of(s, policy, options.seed + seed, options));
  return mean_over_seeds(all);
}

std::string quorum_of(const setting& s) { return fmt::format("quorum:{},grace={}", s.quorum, grace); }

/// Goodput of each quorum among eight learners.
figure by_quorum(const experiment_options& options) {
  figure f{"quorum",
           "A quorum that is no larger than it must be loses nobody's work",
           "Share of the work of eight learners that merges take, if each is down for a tenth of the time. "
           "With a quorum of all eight, whoever is down stops all others.",
           {"quorum K"},
           {"goodput"},
           {{"binomial sum", series_look::line}, {"measured"}}};
  for (std::uint32_t k = 1; k <= 8; ++k) {
    const setting s{8, k, 0.9};
    const seeds_mean m = over_seeds(s, quorum_of(s), options);
    f.series[0].points.push_back({static_cast<double>(k), goodput_of_quorum(s.learners, s.quorum, s.up)});
    f.series[1].points.push_back({static_cast<double>(k), m.mean, m.spread});
  }
  return f;
}

} // namespace

void run_quorum_goodput(const experiment_options& options, experiment_result& result) {
  for (const setting& s : settings) {
    const seeds_mean m = over_seeds(s, quorum_of(s), options);
    result.claims.push_back(
        {fmt::format("quorum of {} among {}, each up {:g} of the time", s.quorum, s.learners, s.up), "",
         "binomial sum", goodput_of_quorum(s.learners, s.quorum, s.up), m.mean, m.spread,
         options.quick ? 0.05 : 0.02});
  }
  result.figures.push_back(by_quorum(options));
}

} // namespace mailgrad::lab
