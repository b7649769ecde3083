#include <mailgrad/lab/experiments/quadratic_run.hpp>
#include <mailgrad/lab/theory.hpp>

#include <fmt/format.h>

#include <algorithm>

// How long an update takes under five policies, with workers whose steps take random times.

namespace mailgrad::lab {

namespace {

constexpr std::uint32_t straggling_workers = 16;

struct straggler_law {
  const char *name, *delays;
  double mean;
  double largest; ///< the mean of the largest of 16 draws; the last two by integrating 1 - F(x)^16
  double share;   ///< by which a mean of so many draws may be off
};

const double largest_exponential = mean_of_kth_exponential(straggling_workers, straggling_workers);
const straggler_law straggler_laws[] = {
    {"exponential", "exp", 1, largest_exponential, 0.02},
    {"shifted exponential", "shifted-exp:shift=1,mean=1", 2, 1 + largest_exponential, 0.02},
    {"Pareto, alpha 3", "pareto:alpha=3", 1.5, mean_of_kth_pareto(straggling_workers, straggling_workers, 3),
     0.05},
    {"gamma, cv 0.3", "gamma:cv=0.3", 1, 1.5978, 0.02},
    {"lognormal, sigma 0.5", "lognormal:sigma=0.5", 1, 2.2179, 0.03}};

double seconds_of_gradient(const char* delays, const std::string& policy, std::uint64_t steps,
                           std::uint32_t of_workers, std::uint64_t seed, const experiment_options& options,
                           double gradients_of_update, bool interrupts = false) {
  quadratic_case c = case_of("quadratic:dimension=1", of_workers, delays, policy, 1e-6, steps, seed);
  c.interrupts = interrupts;
  const training_report r = run_quadratic(c, options).report;
  return r.wall_seconds / (static_cast<double>(r.updates) * gradients_of_update);
}

struct policy_case {
  const char *name, *policy;
  double gradients;                      ///< in an update
  double (*exact)(const straggler_law&); ///< seconds of an update; null: none is known
  const char* from;                      ///< whence that is known
};

constexpr policy_case policies[] = {
    {"sync", "sync", straggling_workers, [](const straggler_law& l) { return l.largest; },
     "order statistics"},
    {"k-batch-async:8", "k-batch-async:8", 8,
     [](const straggler_law& l) { return 8 * l.mean / straggling_workers; }, "K x mean / M"},
    {"k-async:8", "k-async:8", 8, nullptr, nullptr},
    {"ssp:3", "ssp:3", 1, nullptr, nullptr},
    {"async", "async", 1, [](const straggler_law& l) { return l.mean / straggling_workers; }, "mean / M"}};

/// One slow worker that stays slow: a bound helps nothing, however large it is.
void claim_persistent(const experiment_options& options, experiment_result& result) {
  constexpr const char* delays = "list:1,1,1,1,1,1,1,2";
  const std::pair<const char*, double> known[] = {{"ssp:0", 4}, {"ssp:3", 4}, {"ssp:10", 4}, {"async", 7.5}};
  for (const auto& [policy, expected] : known) {
    const double seconds = seconds_of_gradient(delays, policy, 8'000, 8, options.seed, options, 1);
    result.expect(fmt::format("{}, seven workers of 1 s and one of 2 s", policy), "gradients/s",
                  "closed form", expected, 1 / seconds, 0.02 * expected);
  }
}

/// Updates of the first four gradients of eight workers, of which the others are interrupted: one of each
/// worker at most (K-sync), or any (K-batch-sync). The fourth of eight times is never before the fourth
/// gradient of any, and its deviation, which is known, stands for that of both.
void claim_interrupted(const experiment_options& options, experiment_result& result) {
  constexpr std::uint64_t seeds = 4;
  constexpr double of_gamma = 0.0427; // by integrating, as its mean of 0.982
  struct known {
    const char *policy, *name, *law, *delays;
    double seconds, deviation;
    const char* from;
  };
  const char *order = "order statistics", *others = "another simulation, of three digits";
  const double of_exponential = mean_of_kth_exponential(4, 8),
               exponential = deviation_of_kth_exponential(4, 8), pareto = deviation_of_kth_pareto(4, 8, 2);
  const known all[] = {
      {"backup:4", "K-sync", "exponential", "exp", of_exponential, exponential, order},
      {"backup:4", "K-sync", "shifted exponential", "shifted-exp:shift=1,mean=1", 1 + of_exponential,
       exponential, order},
      {"backup:4", "K-sync", "Pareto, alpha 2", "pareto:alpha=2", mean_of_kth_pareto(4, 8, 2), pareto, order},
      {"backup:4", "K-sync", "gamma, cv 0.1", "gamma:cv=0.1", 0.982, of_gamma, order},
      {"k-batch-sync:4", "K-batch-sync", "exponential", "exp", 0.5, exponential, "K / M of the mean"},
      {"k-batch-sync:4", "K-batch-sync", "shifted exponential", "shifted-exp:shift=1,mean=1", 1.630,
       exponential, others},
      {"k-batch-sync:4", "K-batch-sync", "Pareto, alpha 2", "pareto:alpha=2", 1.390, pareto, others},
      {"k-batch-sync:4", "K-batch-sync", "gamma, cv 0.1", "gamma:cv=0.1", 0.982, of_gamma, others}};
  const std::uint64_t steps = options.quick ? 8'000 : 200'000;
  for (const known& k : all) {
    const seeds_mean m = mean_over_seeds(options, seeds, [&](std::uint64_t seed) {
      return seconds_of_gradient(k.delays, k.policy, steps, 8, seed, options, 1, true);
    });
    constexpr double steps_of_update = 11; // of K-batch-sync with short steps; else fewer
    const double updates = static_cast<double>(seeds * steps) / steps_of_update;
    result.expect(fmt::format("update of {}, 4 of 8 workers, interrupted, {}", k.name, k.law), "s", k.from,
                  k.seconds, m, std::max(0.005 * k.seconds, chance_of_mean(k.deviation, updates)));
  }
}

/// What workers do all the time, under policies that wait for some, for all, or for nobody.
void draw_timelines(const experiment_options& options, experiment_result& result) {
  const std::pair<const char*, const char*> shown[] = {
      {"sync", "A barrier waits for the slowest worker"},
      {"backup:1", "With a backup worker the slowest gradient is late, and discarded"},
      {"ssp:1", "A bound holds the fast workers"},
      {"async", "Nobody waits"}};
  for (const auto& [policy, title] : shown) {
    quadratic_case c = case_of("quadratic:dimension=1", 6, "exp", policy, 1e-6, 120, options.seed);
    c.trace_events = 1000;
    const std::string name = policy;
    result.figures.push_back(timeline_figure(run_quadratic(c, options).trace, c.workers, 8,
                                             "timeline-" + name.substr(0, name.find(':')),
                                             fmt::format("{}: {}", policy, title)));
  }
}

} // namespace

void run_stragglers(const experiment_options& options, experiment_result& result) {
  figure f(
      "time", "What policies pay for stragglers",
      "Time of a gradient of 16 workers over that of workers that never wait, for five laws of the times "
      "of steps. A barrier pays the mean of the largest of 16 draws.",
      {"law of delays"}, {"time of a gradient / ideal"});
  for (const straggler_law& l : straggler_laws) f.x.marks.emplace_back(l.name);
  const std::uint64_t steps = options.quick ? 10'000 : 64'000, seeds = options.quick ? 2 : 4;
  for (const policy_case& p : policies) {
    figure_series found{p.name};
    for (std::size_t i = 0; i < std::size(straggler_laws); ++i) {
      const straggler_law& l = straggler_laws[i];
      const seeds_mean m = mean_over_seeds(options, seeds, [&](std::uint64_t seed) {
        return seconds_of_gradient(l.delays, p.policy, steps, straggling_workers, seed, options,
                                   p.gradients) *
               p.gradients;
      });
      // in the time of the mean worker, so that one is a policy that loses none
      found.add(i + 1, m / (p.gradients * l.mean / straggling_workers));
      if (p.exact)
        result.expect(fmt::format("update of {}, {}", p.name, l.name), "s", p.from, p.exact(l), m,
                      (options.quick ? 2 : 1) * l.share * p.exact(l));
    }
    f.series.push_back(std::move(found));
  }
  claim_persistent(options, result);
  claim_interrupted(options, result);
  result.figures.push_back(std::move(f));
  draw_timelines(options, result);
}

} // namespace mailgrad::lab
