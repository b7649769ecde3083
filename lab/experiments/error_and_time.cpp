#include <mailgrad/lab/experiments/quadratic_run.hpp>
#include <mailgrad/lab/theory.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

// One run gives both curves: by updates the barrier wins, by time it loses, until the noise floor. Eight
// workers without memory, curvature 1, step 0.1, noise of deviation 1, and each coordinate begins at 10.

namespace mailgrad::lab {

namespace {

constexpr std::uint32_t racing_workers = 8;
constexpr double a = 0.1, start = 10;

/// So many that the mean square of one run is nearly what its order of workers makes it.
std::size_t coordinates(const experiment_options& options) { return options.quick ? 200 : 2000; }

/// E x^2 after each update of a barrier, whose gradient is the mean of eight.
std::vector<double> exact_sync(std::size_t last) {
  std::vector<double> all{start * start};
  for (std::size_t t = 0; t < last; ++t)
    all.push_back((1 - a) * (1 - a) * all.back() + a * a / racing_workers);
  return all;
}

struct curve {
  std::vector<double> square{}; ///< by update, the mean over coordinates
  std::vector<double> along{};  ///< under async, what it should be for the workers that made these updates
  std::vector<double> time{};   ///< when it was made
  std::uint64_t repeated = 0;   ///< of the updates that are wanted, those by the worker of the one before
};

/// E x^2 by update under async, if it is known which worker makes each: x(t+1) = x(t) - a w + a noise, where
/// w is what that worker has read. So x and the weights that workers have read are sums of the start and of
/// noise, and their covariances follow.
class along_order {
public:
  along_order() {
    for (row& r : of_) r.fill(start * start);
  }

  double square() const noexcept { return of_[x][x]; }
  void update(rank maker) {
    const std::uint32_t i = maker.value;
    const row read = of_[i];
    const double square = of_[x][x] - 2 * a * of_[x][i] + a * a * read[i] + a * a;
    for (std::uint32_t w = 0; w < racing_workers; ++w) of_[x][w] -= a * read[w];
    of_[x][x] = of_[x][i] = square;
    of_[i] = of_[x]; // it reads the new x
    for (std::uint32_t w = 0; w < racing_workers; ++w) of_[w][i] = of_[w][x] = of_[x][w];
  }

private:
  static constexpr std::uint32_t x = racing_workers; ///< its place behind those of what workers have read
  using row = std::array<double, racing_workers + 1>;
  std::array<row, racing_workers + 1> of_{}; ///< covariances
};

/// Under a barrier all workers read what an update made; under async one does, and that one has made it.
curve run_once(const char* policy, std::size_t updates, std::uint64_t seed,
               const experiment_options& options) {
  const bool barrier = std::string_view(policy) == "sync";
  const std::size_t n = coordinates(options);
  curve made;
  along_order known;
  std::uint64_t reads = 0;
  std::optional<rank> before;
  quadratic_case c =
      case_of(fmt::format("quadratic:dimension={},noise=1,start={}", n, start), racing_workers, "exp", policy,
              a, barrier ? racing_workers * (updates + 1) : 3 * racing_workers + updates, seed);
  c.on_read = [&](rank who, instant when, std::span<const float> x) {
    const bool is_new = barrier ? reads % racing_workers == 0 : reads == 0 || reads >= racing_workers;
    ++reads;
    if (!is_new) return;
    made.time.push_back(in_seconds(when));
    made.square.push_back(mean_square(x.first(n)));
    if (barrier) return;
    if (made.square.size() > 1) {
      known.update(who);
      if (made.square.size() <= updates + 1) made.repeated += std::exchange(before, who) == who ? 1 : 0;
    }
    made.along.push_back(known.square());
  };
  run_quadratic(c, options);
  return made;
}

struct regime {
  const char* policy;
  double seconds; ///< of an update, in the mean
  std::vector<double> exact;
  std::vector<std::size_t> compared;

  std::size_t updates() const { return exact.size() - 1; }
  /// Whether it makes a difference which worker makes an update.
  bool has_order() const { return std::string_view(policy) == "async"; }
};

seeds_mean at(const std::vector<curve>& all, std::vector<double> curve::*what, std::size_t update) {
  return mean_of(all, [&](const curve& c) { return (c.*what)[update]; });
}

std::size_t first_below(const std::vector<double>& square, double target) {
  return static_cast<std::size_t>(std::ranges::find_if(square, [&](double x) { return x <= target; }) -
                                  square.begin());
}

/// An error that a run comes to.
struct target {
  double known;   ///< of the recursion
  double found;   ///< of the runs; another number only if it is itself measured
  double off = 0; ///< by which that may differ by chance
};

/// When the mean over all runs comes to a target, against so many updates of the recursion. A mean that has
/// nearly come to its floor may be early or late by some updates: by those in which the recursion moves as
/// far as chance moves the mean, and by half of all at most.
void claim_time(const regime& r, const std::vector<curve>& all, const std::string& what, const target& to,
                experiment_result& result) {
  const std::size_t exact = first_below(r.exact, to.known);
  std::size_t reached = 0;
  while (reached < r.updates() && at(all, &curve::square, reached).mean > to.found) ++reached;
  const double off = to.off + at(all, &curve::square, exact).by_chance();
  const std::size_t soonest = first_below(r.exact, to.known + off),
                    latest = first_below(r.exact, to.known - off);
  const std::size_t updates = std::min(std::max(exact - soonest, latest - exact), exact / 2);
  const seeds_mean m = at(all, &curve::time, reached);
  result.expect(what, "s", fmt::format("{} updates of {:.4g} s", exact, r.seconds),
                static_cast<double>(exact) * r.seconds, m,
                m.by_chance() + static_cast<double>(updates) * r.seconds);
}

/// Where workers have an order, runs are also compared with what their own orders make of them. Coordinates
/// differ by noise alone, so the mean square of n of them has at most the relative deviation that it has
/// around 0: the root of 2/n. Without memory, each worker is as likely to be the next as any other.
void claim_errors(const regime& r, const std::vector<curve>& all, const experiment_options& options,
                  experiment_result& result) {
  const seeds_spread of_runs{claim::unknown, all.size()};
  const double values = static_cast<double>(coordinates(options) * all.size());
  for (const std::size_t u : r.compared) {
    const seeds_mean m = at(all, &curve::square, u);
    result.expect(fmt::format("mean square of {} after {} updates", r.policy, u), "",
                  "recursion of second moments", r.exact[u], m, m.by_chance() + 1e-4 * r.exact[u]);
    if (r.has_order())
      result.expect(fmt::format("the same after {} updates, over that of the orders of these runs", u), "",
                    "recursion along the order of each run", 1,
                    {m.mean / at(all, &curve::along, u).mean, of_runs},
                    chance_of_mean(std::sqrt(2.0), values));
  }
  if (!r.has_order()) return;
  double repeated = 0;
  for (const curve& c : all) repeated += static_cast<double>(c.repeated);
  const double updates = static_cast<double>(all.size() * (r.updates() - 1)), p = 1.0 / racing_workers;
  result.expect("updates of async by the worker of the one before", "", "1/M", p,
                {repeated / updates, of_runs}, chance_of_mean(std::sqrt(p * (1 - p)), updates));
}

void draw(const regime& r, const std::vector<curve>& all, figure& by_updates, figure& by_time) {
  figure_series known{fmt::format("exact, {}", r.policy), series_look::line};
  figure_series measured{fmt::format("measured, {}", r.policy)}, timed{r.policy};
  constexpr std::size_t shown = 120; // updates; async changes no more afterwards
  const std::size_t stride = std::max<std::size_t>(1, r.updates() / 40);
  for (std::size_t u = 0; u <= std::min(shown, r.updates()); ++u) {
    known.add(u, r.exact[u]);
    if (u % 3 == 0) measured.add(u, at(all, &curve::square, u).mean);
  }
  for (std::size_t u = 0; u <= r.updates(); u += stride)
    timed.add(at(all, &curve::time, u).mean, at(all, &curve::square, u).mean);
  by_updates.series.push_back(std::move(known));
  by_updates.series.push_back(std::move(measured));
  by_time.series.push_back(std::move(timed));
}

} // namespace

void run_error_and_time(const experiment_options& options, experiment_result& result) {
  const regime regimes[] = {
      {"async",
       1.0 / racing_workers,
       mean_square_path(racing_workers, a, start, a * a, 800),
       {8, 16, 40, 80, 800}},
      {"sync", mean_of_kth_exponential(racing_workers, racing_workers), exact_sync(80), {1, 10, 20, 50, 80}}};
  const std::string what = "Mean square of the weights of a quadratic, eight workers that take exponential "
                           "times, step 0.1. ";
  figure by_updates("updates", "Error against updates", what + "By updates the barrier is ahead.",
                    {"updates of the weights"}, {"mean square", axis_scale::logarithmic});
  figure by_time("time", "Error against time, of the same runs",
                 what + "By time async is ahead, until its noise floor.", {"virtual time [s]"},
                 {"mean square", axis_scale::logarithmic});
  seeds_mean floor; // of async
  for (const regime& r : regimes) {
    const std::vector<curve> all = over_seeds(options, options.quick ? 100 : 600, [&](std::uint64_t seed) {
      return run_once(r.policy, r.updates(), seed, options);
    });
    claim_errors(r, all, options, result);
    for (const double square : {10.0, 1.0, 0.1})
      claim_time(r, all, fmt::format("time of {} to a mean square of {:g}", r.policy, square),
                 {square, square}, result);
    if (r.has_order()) // async comes first
      floor = at(all, &curve::square, r.updates());
    else
      claim_time(r, all, "time from which the barrier is ahead for good",
                 {regimes[0].exact.back(), floor.mean, floor.by_chance()}, result);
    draw(r, all, by_updates, by_time);
  }
  result.figures.push_back(std::move(by_updates));
  result.figures.push_back(std::move(by_time));
}

} // namespace mailgrad::lab
