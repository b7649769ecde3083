#include <mailgrad/lab/experiments/all.hpp>
#include <mailgrad/lab/experiments/quadratic_run.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

// The quadratic of the Ringmaster paper's code, of 1729 coordinates, with workers of very unlike speeds:
// worker i takes 1 + sqrt(i - 1) + |N(0, i)| seconds. All methods have the rates of that code, but for the
// delay-adaptive one in the quick run, whose rate goes with 1 / workers.

namespace mailgrad::lab {

namespace {

constexpr std::size_t coordinates = 1729;

/// The loss of the chain, at weights that a run begins at 0.
double loss_of(std::span<const float> x) {
  const auto n = static_cast<double>(coordinates);
  double loss = n / (n + 1) / 8, before = 0;
  for (std::size_t j = 0; j < coordinates; ++j) {
    const double y = x[j] + (j == 0 ? std::sqrt(n) : 0);
    const double next = j + 1 < coordinates ? double{x[j + 1]} : 0;
    loss += y * (2 * y - next - before) / 8 + (j == 0 ? y / 4 : 0);
    before = y;
  }
  return loss;
}

struct method {
  std::string name, policy, cure;
  double rate = 1;
};

struct path {
  std::vector<figure_point> losses; ///< over time, and each update shortly before a moment that is compared
  double at(double seconds) const {
    double loss = claim::unknown;
    for (const figure_point& p : losses)
      if (p.x <= seconds) loss = p.y;
    return loss;
  }
};

/// Between two updates of Rennala lie seconds, in which the loss falls by percents.
bool is_compared_soon(double seconds) {
  constexpr double longest_update = 10;
  for (const double compared : {100.0, 500.0})
    if (seconds <= compared && seconds > compared - longest_update) return true;
  return false;
}

path run_method(const method& m, const char* noise_form, std::uint32_t workers, double until,
                std::uint64_t seed, const experiment_options& options, bool interrupts = false) {
  constexpr double between = 2.5;
  path made;
  double due = 0;
  float first = 0;
  bool over = false;
  quadratic_case c;
  c.model =
      fmt::format("quadratic:dimension={},form=chain,noise=0.01,noise-form={}", coordinates, noise_form);
  c.workers = workers;
  c.delays = "half-normal:base=1+sqrt(i-1),sigma=sqrt(i)";
  c.policy = m.policy;
  c.cure = m.cure;
  c.learning_rate = m.rate;
  c.steps = 100'000'000; // it is stopped by time
  c.seed = seed;
  c.interrupts = interrupts;
  c.ends_early = [&] { return over; };
  c.on_read = [&](rank, instant when, std::span<const float> x) {
    const double seconds = in_seconds(when);
    over = seconds > until;
    const bool is_new = std::exchange(first, x[0]) != x[0] && is_compared_soon(seconds);
    if ((seconds < due && !is_new) || over) return;
    made.losses.push_back({seconds, loss_of(x)});
    if (seconds >= due) due = seconds + between;
  };
  run_quadratic(c, options);
  return made;
}

std::vector<method> methods_for(std::uint32_t workers) {
  const double adaptive = 0.00032 * 6174 / workers;
  return {{"ringmaster:6", "ringmaster:6", "none", 0.25},
          {"rennala:6", "rennala:6", "none", 1.0},
          {"async, mishchenko", "async", "mishchenko", adaptive}};
}

/// Another simulation, of two seeds each, which interrupts workers whose gradient has become useless. Runs of
/// Ringmaster differ much, so there are more of them.
void claim_known(const std::vector<method>& methods, std::uint32_t workers, const experiment_options& options,
                 experiment_result& result) {
  struct known {
    std::size_t method;
    const char* noise;
    double at_100, share;
  };
  for (const known& k : {known{0, "each", 0.1255, 0.05},
                         {1, "each", 0.281, 0.05},
                         {2, "each", 47.5, 0.03},
                         {0, "common", 0.1075, 0.1},
                         {1, "common", 0.2755, 0.05}}) {
    const method& m = methods[k.method];
    std::vector<double> found;
    for (std::uint64_t s = 0; s < (k.method == 0 ? 4U : 2U); ++s)
      found.push_back(
          run_method(m, k.noise, workers, 102.5, options.seed + s, options, m.policy != "async").at(100));
    const seeds_mean mean = mean_over_seeds(found);
    result.claims.push_back({fmt::format("f - f* at 100 s, {}{}, {} noise", m.name,
                                         m.policy == "async" ? "" : ", interrupted", k.noise),
                             "", "another simulation", k.at_100, mean.mean, mean.spread,
                             std::max(k.share * k.at_100, mean.by_chance())});
  }
}

/// The code of the paper adds one normal number to all coordinates. The order of the methods is the same.
void claim_order_of_common_noise(std::uint32_t workers, const experiment_options& options,
                                 experiment_result& result) {
  std::vector<double> at_100;
  for (const method& m : methods_for(workers))
    at_100.push_back(run_method(m, "common", workers, 102.5, options.seed, options).at(100));
  result.claims.push_back({"f - f* at 100 s, common noise, ringmaster over rennala", "",
                           "order in the paper's code", 1, at_100[0] / at_100[1], claim::unknown, 0,
                           relation::at_most});
  result.claims.push_back({"f - f* at 100 s, common noise, rennala over delay-adaptive", "",
                           "order in the paper's code", 1, at_100[1] / at_100[2], claim::unknown, 0,
                           relation::at_most});
}

} // namespace

void run_fresh_gradients(const experiment_options& options, experiment_result& result) {
  const std::uint32_t workers = options.quick ? 600 : 6174;
  const double until = options.quick ? 100 : 500;
  figure f{
      "loss",
      "Loss against time with workers of unlike speed",
      fmt::format("{} workers, of which worker i takes 1 + sqrt(i - 1) + |N(0, i)| seconds, and a quadratic "
                  "of 1729 coordinates with noise of deviation 0.01 in each.",
                  workers),
      {"virtual time [s]"},
      {"f - f*", axis_scale::logarithmic},
      {}};
  std::vector<double> early, late;
  for (const method& m : methods_for(workers)) {
    std::vector<double> at_100, at_end;
    path shown;
    for (std::uint64_t s = 0; s < 2; ++s) {
      shown = run_method(m, "each", workers, until, options.seed + s, options);
      at_100.push_back(shown.at(100));
      at_end.push_back(shown.at(until));
    }
    early.push_back(mean_over_seeds(at_100).mean);
    late.push_back(mean_over_seeds(at_end).mean);
    f.series.push_back({m.name, series_look::points, std::move(shown.losses)});
  }
  if (!options.quick) claim_known(methods_for(workers), workers, options, result);
  result.claims.push_back({"f - f* at 100 s, ringmaster over rennala",
                           "",
                           "order in the paper",
                           1,
                           early[0] / early[1],
                           {claim::unknown, 2},
                           0,
                           relation::at_most});
  result.claims.push_back({"f - f* at 100 s, rennala over delay-adaptive",
                           "",
                           "order in the paper",
                           1,
                           early[1] / early[2],
                           {claim::unknown, 2},
                           0,
                           relation::at_most});
  result.claims.push_back({fmt::format("f - f* at {} s, ringmaster over delay-adaptive", until),
                           "",
                           "order in the paper",
                           1,
                           late[0] / late[2],
                           {claim::unknown, 2},
                           0,
                           relation::at_most});
  if (!options.quick)
    result.claims.push_back({"f - f* at 500 s, rennala over delay-adaptive",
                             "",
                             "another simulation",
                             1,
                             late[1] / late[2],
                             {claim::unknown, 2},
                             0,
                             relation::at_most});
  claim_order_of_common_noise(workers, options, result);
  result.figures.push_back(std::move(f));
}

} // namespace mailgrad::lab
