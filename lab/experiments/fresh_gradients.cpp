#include <mailgrad/lab/experiments/quadratic_run.hpp>

#include <fmt/format.h>

// The quadratic of the Ringmaster paper's code, of 1729 coordinates, with workers of very unlike speeds:
// worker i takes 1 + sqrt(i - 1) + |N(0, i)| seconds. All methods have the rates of that code, but for the
// delay-adaptive one in the quick run, whose rate goes with 1 / workers.

namespace mailgrad::lab {

namespace {

constexpr std::size_t length_of_chain = 1729;

/// The loss of the chain, at weights that a run begins at 0.
double loss_of(std::span<const float> x) {
  const auto n = static_cast<double>(length_of_chain);
  double loss = n / (n + 1) / 8, before = 0;
  for (std::size_t j = 0; j < length_of_chain; ++j) {
    const double y = x[j] + (j == 0 ? std::sqrt(n) : 0);
    const double next = j + 1 < length_of_chain ? double{x[j + 1]} : 0;
    loss += y * (2 * y - next - before) / 8 + (j == 0 ? y / 4 : 0);
    before = y;
  }
  return loss;
}

struct timed_method {
  std::string name, policy, cure;
  double rate = 1;
};

/// The losses of a run.
struct loss_path {
  std::vector<figure_point> shown; ///< over time
  std::vector<double> compared;    ///< at each moment that was asked for
};

/// Runs until the last of the moments, in seconds.
loss_path run_method(const timed_method& m, const char* noise_form, std::uint32_t workers,
                     const std::vector<double>& moments, std::uint64_t seed,
                     const experiment_options& options, bool interrupts = false) {
  constexpr double between = 2.5; // points that are drawn
  loss_path made;
  double due = 0;
  std::vector<float> newest;
  constexpr std::uint64_t steps = 100'000'000; // it is stopped by time
  quadratic_case c = case_of(
      fmt::format("quadratic:dimension={},form=chain,noise=0.01,noise-form={}", length_of_chain, noise_form),
      workers, "half-normal:base=1+sqrt(i-1),sigma=sqrt(i)", m.policy, m.rate, steps, seed);
  c.cure = m.cure;
  c.interrupts = interrupts;
  c.ends_early = [&] { return made.compared.size() == moments.size(); };
  c.on_read = [&](rank, instant when, std::span<const float> x) {
    const double seconds = in_seconds(when);
    while (made.compared.size() < moments.size() && seconds > moments[made.compared.size()])
      made.compared.push_back(loss_of(newest));
    if (made.compared.size() == moments.size()) return;
    newest.assign(x.begin(), x.end());
    if (seconds < due) return;
    made.shown.push_back({seconds, loss_of(x)});
    due = seconds + between;
  };
  run_quadratic(c, options);
  return made;
}

std::vector<timed_method> methods_for(std::uint32_t workers) {
  const double adaptive = 0.00032 * 6174 / workers;
  return {{"ringmaster:6", "ringmaster:6", "none", 0.25},
          {"rennala:6", "rennala:6", "none", 1.0},
          {"async, mishchenko", "async", "mishchenko", adaptive}};
}

constexpr double compared_early = 100; // seconds

/// Another simulation, of two seeds each, which interrupts workers whose gradient has become useless. How far
/// runs differ was measured over eight seeds of this experiment, from 1 on, and is rounded up.
void claim_known(const std::vector<timed_method>& methods, std::uint32_t workers,
                 const experiment_options& options, experiment_result& result) {
  constexpr std::uint64_t seeds = 8;
  constexpr double of_others = 2;
  struct known {
    std::size_t method;
    const char* noise;
    double at_100;
    double deviation; ///< of one run, as a share
  };
  for (const known& k : {known{0, "each", 0.1255, 0.06},
                         {1, "each", 0.281, 0.04},
                         {2, "each", 47.5, 0.025},
                         {0, "common", 0.1075, 0.06},
                         {1, "common", 0.2755, 0.04}}) {
    const timed_method& m = methods[k.method];
    const bool interrupts = m.policy != "async";
    const seeds_mean found = mean_over_seeds(options, seeds, [&](std::uint64_t seed) {
      return run_method(m, k.noise, workers, {compared_early}, seed, options, interrupts).compared.front();
    });
    const double share =
        chance_of_mean(k.deviation, seeds * of_others / (seeds + of_others)); // both are means
    result.expect(
        fmt::format("f - f* at 100 s, {}{}, {} noise", m.name, interrupts ? ", interrupted" : "", k.noise),
        "", "another simulation, of two seeds", k.at_100, found, share * k.at_100);
  }
}

void claim_order(std::string name, std::string from, double ratio, std::uint64_t seeds,
                 experiment_result& result) {
  result.expect(std::move(name), "", std::move(from), 1, {ratio, {claim::unknown, seeds}}, 0,
                relation::at_most);
}

/// The code of the paper adds one normal number to all coordinates. The order of the methods is the same.
void claim_order_of_common_noise(std::uint32_t workers, const experiment_options& options,
                                 experiment_result& result) {
  std::vector<double> early;
  for (const timed_method& m : methods_for(workers))
    early.push_back(
        run_method(m, "common", workers, {compared_early}, options.seed, options).compared.front());
  const char* from = "order in the paper's code";
  claim_order("f - f* at 100 s, common noise, ringmaster over rennala", from, early[0] / early[1], 1, result);
  claim_order("f - f* at 100 s, common noise, rennala over delay-adaptive", from, early[1] / early[2], 1,
              result);
}

} // namespace

void run_fresh_gradients(const experiment_options& options, experiment_result& result) {
  const std::uint32_t workers = options.quick ? 600 : 6174;
  constexpr std::uint64_t seeds = 2;
  const std::vector<double> moments =
      options.quick ? std::vector<double>{compared_early} : std::vector<double>{compared_early, 500};
  figure f(
      "loss", "Loss against time with workers of unlike speed",
      fmt::format("{} workers, of which worker i takes 1 + sqrt(i - 1) + |N(0, i)| seconds, and a quadratic "
                  "of 1729 coordinates with noise of deviation 0.01 in each.",
                  workers),
      {"virtual time [s]"}, {"f - f*", axis_scale::logarithmic});
  std::vector<double> early, late;
  for (const timed_method& m : methods_for(workers)) {
    std::vector<loss_path> runs = over_seeds(options, seeds, [&](std::uint64_t seed) {
      return run_method(m, "each", workers, moments, seed, options);
    });
    early.push_back(mean_of(runs, [](const loss_path& p) { return p.compared.front(); }).mean);
    late.push_back(mean_of(runs, [](const loss_path& p) { return p.compared.back(); }).mean);
    f.series.push_back({m.name, series_look::points, std::move(runs.back().shown)});
  }
  if (!options.quick) claim_known(methods_for(workers), workers, options, result);
  const char* from = "order in the paper";
  claim_order("f - f* at 100 s, ringmaster over rennala", from, early[0] / early[1], seeds, result);
  claim_order("f - f* at 100 s, rennala over delay-adaptive", from, early[1] / early[2], seeds, result);
  claim_order(fmt::format("f - f* at {} s, ringmaster over delay-adaptive", moments.back()), from,
              late[0] / late[2], seeds, result);
  if (!options.quick)
    claim_order("f - f* at 500 s, rennala over delay-adaptive", "another simulation", late[1] / late[2],
                seeds, result);
  claim_order_of_common_noise(workers, options, result);
  result.figures.push_back(std::move(f));
}

} // namespace mailgrad::lab
