#include <mailgrad/lab/experiments/quadratic_run.hpp>
#include <mailgrad/lab/theory.hpp>

#include <fmt/format.h>

#include <algorithm>

// How stale gradients are, and how fast workers are that wait for others, as far as it is known: by counting,
// by closed forms, or by figures of others that have three digits or more.

namespace mailgrad::lab {

namespace {

struct run_of_workers {
  std::uint32_t workers;
  std::string delays, policy;
  std::uint64_t steps;
};

training_report report_of(const run_of_workers& r, std::uint64_t seed, const experiment_options& options) {
  return run_quadratic(case_of("quadratic:dimension=1", r.workers, r.delays, r.policy, 1e-6, r.steps, seed),
                       options)
      .report;
}

/// The reports of as many steps in all, with several seeds.
std::vector<training_report> reports_of(run_of_workers r, const experiment_options& options) {
  const std::uint64_t seeds = options.quick ? 4 : 16;
  r.steps /= seeds;
  return over_seeds(options, seeds, [&](std::uint64_t seed) { return report_of(r, seed, options); });
}

/// Within half a percent, or within what is known of chance where that is more.
void claim_figure(std::string name, std::string unit, std::string from, double expected, double chance,
                  const seeds_mean& m, experiment_result& result) {
  result.expect(std::move(name), std::move(unit), std::move(from), expected, m,
                std::max(0.005 * expected, chance));
}

// -- staleness -------------------------------------------------------------------------------------------

/// Each update makes the gradients of all other workers one version older, whatever the times are. Chance has
/// a part only at the end: when a worker finds no batch, each of those that still work has one under way and
/// one in hand at most. It lacks what they make of these, so all gradients together lack M (M - 1) versions
/// at most.
void claim_means(const experiment_options& options, experiment_result& result) {
  const std::uint64_t steps = options.quick ? 20'000 : 200'000;
  const auto claim_mean = [&](const run_of_workers& r, const char* from, double expected) {
    const double lacking = r.workers * (r.workers - 1.0) / static_cast<double>(r.steps);
    result.expect(fmt::format("mean staleness, {} workers, {}, {}", r.workers, r.policy, r.delays),
                  "versions", from, expected, report_of(r, options.seed, options).staleness.mean(), lacking);
  };
  for (const char* delays : {"exp", "pareto:alpha=1.5", "gamma:cv=0.1", "constant:sqrt(i)"}) {
    claim_mean({8, delays, "async", steps}, "M - 1", 7);
    claim_mean({8, delays, "k-batch-async:4", steps}, "(M - 1) / K", 1.75);
    claim_mean({8, delays, "k-async:4", steps}, "(M - K) / K", 1);
  }
  for (const std::uint32_t k : {2U, 5U, 30U})
    claim_mean({30, "gamma:cv=0.1", fmt::format("k-batch-async:{}", k), steps},
               "(M - 1) / K; the paper of softsync", 29.0 / k);
}

/// Of workers without memory: (1 - 1/M)^k / M. Each update is a draw of its own, fresh or not. Of two that
/// are near each other, one is less likely to be very late if the other is, so the shares of late ones differ
/// less than such draws do.
void claim_distribution(std::uint32_t workers, const experiment_options& options, experiment_result& result,
                        figure& f) {
  const std::uint64_t steps = options.quick ? 80'000 : 1'000'000;
  const auto reports = reports_of({workers, "exp", "async", steps}, options);
  const double stays = 1 - 1.0 / workers;
  const auto share = [&](const auto& counts) {
    return mean_of(reports, [&](const training_report& r) {
      double sum = 0;
      for (const auto& [gap, times] : r.staleness.buckets())
        if (counts(gap)) sum += static_cast<double>(times);
      return sum / static_cast<double>(r.staleness.total());
    });
  };
  const auto chance = [&](double p) {
    return chance_of_mean(std::sqrt(p * (1 - p)), static_cast<double>(steps));
  };
  const std::string of = fmt::format("{} workers without memory", workers);
  const double late = std::pow(stays, 2.0 * workers);
  claim_figure("share of fresh gradients, " + of, "", "1 / M", 1 - stays, chance(stays),
               share([](std::uint64_t gap) { return gap == 0; }), result);
  claim_figure("share of 2 M versions and more, " + of, "", "(1 - 1/M)^(2 M)", late, chance(late),
               share([&](std::uint64_t gap) { return gap >= 2 * workers; }), result);
  figure_series known{fmt::format("exact, {} workers", workers), series_look::line};
  figure_series found{fmt::format("measured, {} workers", workers)};
  for (std::uint64_t gap = 0; gap <= 30; gap += 2) {
    known.add(gap, (1 - stays) * std::pow(stays, static_cast<double>(gap)));
    if (known.points.back().y * static_cast<double>(steps) > 50)
      found.add(gap, share([&](std::uint64_t seen) { return seen == gap; }).mean);
  }
  f.series.push_back(std::move(known));
  f.series.push_back(std::move(found));
}

/// Of worker i with mean time E_i: E_i times the rate of all workers, less 1. How many steps a worker has
/// made differs relatively by the deviation of a step over the root of their number, and staleness by less.
void claim_unlike_workers(const experiment_options& options, experiment_result& result) {
  constexpr double deviation = 0.5, rate = 1 + 1 + 1 + 0.25; // of a step, and steps a second of all
  const std::uint64_t steps = options.quick ? 40'000 : 1'000'000;
  const auto reports = reports_of(
      {4, fmt::format("gamma:cv={},mean=1+(i-1)*(i-2)*(i-3)/2", deviation), "async", steps}, options);
  for (const auto& [worker, mean] : {std::pair(0U, 1.0), {3U, 4.0}}) {
    const double expected = mean * rate - 1, own_steps = static_cast<double>(steps) / (mean * rate);
    claim_figure(fmt::format("mean staleness of worker {}, steps of 1, 1, 1, 4 s in the mean", worker),
                 "versions", "its mean time x all updates a second - 1", expected,
                 chance_of_mean((expected + 1) * deviation, own_steps),
                 mean_of(reports, [w = worker](const auto& r) { return staleness_of(r, w).mean(); }), result);
  }
}

// -- pace ------------------------------------------------------------------------------------------------

double steps_a_second(const training_report& r) { return static_cast<double>(r.steps) / r.wall_seconds; }

/// Behind a barrier a pace is the mean of rounds. A bound lets workers drift apart for a while, so that the
/// pace differs by up to 1.37 times as much: measured over 16 seeds with 4 workers under ssp:3.
double chance_of_pace(std::uint32_t workers, std::uint64_t steps) {
  const double of_round =
      deviation_of_kth_exponential(workers, workers) / mean_of_kth_exponential(workers, workers);
  return 1.4 * chance_of_mean(of_round, static_cast<double>(steps) / workers);
}

void claim_pace_of_ssp(const experiment_options& options, experiment_result& result) {
  const std::uint64_t steps = options.quick ? 40'000 : 600'000;
  struct known {
    std::uint32_t workers;
    unsigned s;
    double pace;
    const char* from = "another simulation, of three digits";
  };
  std::vector<known> all{{4, 1, 2.64},  {4, 3, 3.20},   {4, 10, 3.68},
                         {16, 1, 7.71}, {16, 3, 10.68}, {16, 10, 13.70}};
  for (const unsigned s : {0U, 1U, 2U, 3U, 9U})
    all.push_back({2, s, (4.0 * s + 4) / (2 * s + 3), "(4 s + 4) / (2 s + 3)"});
  for (const known& k : all)
    claim_figure(
        fmt::format("pace of {} workers without memory, ssp:{}", k.workers, k.s), "steps/s", k.from, k.pace,
        k.pace * chance_of_pace(k.workers, steps),
        mean_of(reports_of({k.workers, "exp", fmt::format("ssp:{}", k.s), steps}, options), steps_a_second),
        result);
}

/// A barrier waits for the largest of M draws. Means and deviations are integrals over F(x)^M, or closed
/// forms.
void claim_largest(const experiment_options& options, experiment_result& result) {
  struct largest {
    double mean, deviation;
  };
  struct known {
    const char* delays;
    largest of_4, of_16, of_64;
  };
  const auto largest_pareto = [](std::uint32_t workers) {
    return largest{mean_of_kth_pareto(workers, workers, 3), deviation_of_kth_pareto(workers, workers, 3)};
  };
  const known all[] = {{"gamma:cv=0.1", {1.1046, 0.0754}, {1.1845, 0.0613}, {1.2500, 0.0527}},
                       {"gamma:cv=0.3", {1.3219, 0.2574}, {1.5978, 0.2265}, {1.8413, 0.2060}},
                       {"gamma:cv=0.6", {1.6556, 0.6054}, {2.3111, 0.5833}, {2.9411, 0.5619}},
                       {"lognormal:sigma=0.25", {1.2734, 0.2305}, {1.5215, 0.2147}, {1.7528, 0.2057}},
                       {"lognormal:sigma=0.5", {1.5733, 0.6001}, {2.2179, 0.6595}, {2.9258, 0.7223}},
                       {"lognormal:sigma=1", {2.2081, 2.0176}, {4.1697, 2.9130}, {7.0731, 4.0381}},
                       {"slowdown:p=0.05,factor=10", {2.6694, 3.4983}, {6.0389, 4.4676}, {9.6623, 1.7104}},
                       {"pareto:alpha=3", largest_pareto(4), largest_pareto(16), largest_pareto(64)}};
  const std::uint64_t rounds = options.quick ? 1'000 : 16'000, most = 400'000; // of steps
  for (const known& k : all)
    for (const auto& [workers, of] : {std::pair(4U, k.of_4), {16U, k.of_16}, {64U, k.of_64}}) {
      if (options.quick && workers == 64) continue;
      const std::uint64_t steps = std::min(rounds * workers, most);
      claim_figure(
          fmt::format("update of sync, {} workers, {}", workers, k.delays), "s",
          "mean of the largest of M draws", of.mean,
          chance_of_mean(of.deviation, static_cast<double>(steps) / workers),
          mean_of(reports_of({workers, k.delays, "sync", steps}, options),
                  [](const training_report& r) { return r.wall_seconds / static_cast<double>(r.updates); }),
          result);
    }
}

} // namespace

void run_staleness_laws(const experiment_options& options, experiment_result& result) {
  figure f(
      "distribution", "How stale gradients are whose workers have no memory",
      "Share of gradients by their staleness, of workers that never wait and take exponential times. The "
      "lines are (1 - 1/M)^k / M.",
      {"staleness [versions]"}, {"share of gradients", axis_scale::logarithmic});
  claim_means(options, result);
  for (const std::uint32_t workers : {4U, 16U, options.quick ? 8U : 64U})
    claim_distribution(workers, options, result, f);
  claim_unlike_workers(options, result);
  claim_pace_of_ssp(options, result);
  claim_largest(options, result);
  result.figures.push_back(std::move(f));
}

} // namespace mailgrad::lab
