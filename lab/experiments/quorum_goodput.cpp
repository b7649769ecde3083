#include <mailgrad/engine/delays/delay_law.hpp>
#include <mailgrad/lab/experiments/quadratic_run.hpp>
#include <mailgrad/lab/theory.hpp>

#include <fmt/format.h>

#include <algorithm>

// Learners of which each is down for a share of the time, at moments of its own. A merge takes all who are
// up, but no fewer than a quorum of K. Goodput is the work that merges take, as a share of what n learners
// that are never down would do. Outages last much longer than a step, so who is up at a merge is up
// independently of the others with probability a.

namespace mailgrad::lab {

namespace {

struct quorum_setting {
  std::uint32_t learners, quorum;
  double up; ///< the share of its time
};

constexpr quorum_setting quorum_settings[] = {{8, 4, 0.9}, {8, 8, 0.9}, {16, 8, 0.95}, {4, 3, 0.8}};

/// Seconds, in which each learner has one outage. A step that an outage interrupts goes on afterwards, which
/// is a smaller part of a longer period.
double period_of(const experiment_options& options) { return options.quick ? 400 : 1600; }

outage_delay::terms outages_of(const quorum_setting& s, const experiment_options& options) {
  return {1, period_of(options), (1 - s.up) * period_of(options)};
}

/// The share over one period, in which each learner is down once. A learner reads weights when a merge has
/// taken its work.
double goodput_of(const quorum_setting& s, const std::string& policy, std::uint64_t seed,
                  const experiment_options& options) {
  const double period = period_of(options);
  std::uint64_t merged = 0;
  bool over = false;
  const outage_delay::terms outages = outages_of(s, options);
  const std::uint64_t steps = std::uint64_t{2} * s.learners * static_cast<std::uint64_t>(period);
  quadratic_case c =
      case_of("quadratic:dimension=1,start=0", s.learners,
              fmt::format("outages:every={},lasts={},time={}", outages.every, outages.lasts, outages.time),
              policy, 1e-3, steps, seed); // there is no time for more steps
  c.on_read = [&](rank, instant when, std::span<const float>) {
    over = in_seconds(when) > period;
    if (when > instant{0} && !over) ++merged;
  };
  c.ends_early = [&] { return over; };
  run_quadratic(c, options);
  return static_cast<double>(merged) / (period * s.learners);
}

/// The share if merges lost nothing but by the quorum, with the outages as this seed lays them.
double goodput_as_laid(const quorum_setting& s, std::uint64_t seed, const experiment_options& options) {
  const outage_delay::terms outages = outages_of(s, options);
  std::vector<double> falls; // when each outage begins, in parts of the period
  std::vector<double> edges{0, 1};
  for (std::uint32_t w = 0; w < s.learners; ++w) {
    const double phase = outage_delay({seed, w}, outages).phase() / outages.every;
    falls.push_back(std::fmod(1 + s.up - phase, 1));
    edges.push_back(falls.back());
    edges.push_back(std::fmod(falls.back() + 1 - s.up, 1));
  }
  std::ranges::sort(edges);
  double share = 0;
  for (std::size_t e = 0; e + 1 < edges.size(); ++e) {
    const double middle = (edges[e] + edges[e + 1]) / 2;
    const auto up = std::ranges::count_if(
        falls, [&](double from) { return std::fmod(1 + middle - from, 1) >= 1 - s.up; });
    if (up >= s.quorum) share += static_cast<double>(up) / s.learners * (edges[e + 1] - edges[e]);
  }
  return share;
}

struct measured_goodput {
  seeds_mean found;
  double as_laid = 0; ///< the mean of the shares with the outages as they were laid
};

measured_goodput measure(const quorum_setting& s, std::uint64_t seeds, const experiment_options& options) {
  const std::string policy = fmt::format("quorum:{},grace=0.002", s.quorum);
  const auto as_laid = [&](std::uint64_t seed) { return goodput_as_laid(s, seed, options); };
  return {mean_over_seeds(options, seeds,
                          [&](std::uint64_t seed) { return goodput_of(s, policy, seed, options); }),
          mean_over_seeds(options, seeds, as_laid).mean};
}

} // namespace

/// Where outages fall decides much of the goodput of a run. So the mean over many layouts is compared with
/// the one that is known, and also with the mean of what is right for these layouts, to half a percent.
void run_quorum_goodput(const experiment_options& options, experiment_result& result) {
  for (const quorum_setting& s : quorum_settings) {
    const measured_goodput m = measure(s, options.quick ? 60 : 200, options);
    const double exact = goodput_of_quorum(s.learners, s.quorum, s.up);
    const double closely = (options.quick ? 0.015 : 0.005) * exact;
    result.expect(fmt::format("quorum of {} among {}, each up {:g} of the time", s.quorum, s.learners, s.up),
                  "", "binomial sum", exact, m.found, m.found.by_chance() + closely);
    result.expect("the same, beside what is right for these outages", "", "the moments of the outages",
                  m.as_laid, m.found, closely);
  }
  figure f("quorum", "A quorum that is no larger than it must be loses nobody's work",
           "Share of the work of eight learners that merges take, if each is down for a tenth of the time. "
           "With a quorum of all eight, whoever is down stops all others.",
           {"quorum K"}, {"goodput"}, {{"binomial sum", series_look::line}, {"measured"}});
  for (std::uint32_t k = 1; k <= 8; ++k) {
    const quorum_setting s{8, k, 0.9};
    f.series[0].add(k, goodput_of_quorum(s.learners, s.quorum, s.up));
    f.series[1].add(k, measure(s, options.quick ? 20 : 100, options).found);
  }
  result.figures.push_back(std::move(f));
}

} // namespace mailgrad::lab
