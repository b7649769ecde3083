#include <mailgrad/lab/experiments/quadratic_run.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

// Eight equal workers, one of which becomes ten times as slow after 100 seconds. A barrier gives the lower
// noise floor while all are fast, and waits for one afterwards. A run may switch.

namespace mailgrad::lab {

namespace {

/// A trace of delays in a file that goes with this object, for a law of `trace:FILE`.
/// Errors  std::runtime_error if there is no room for it.
class temporary_trace {
public:
  explicit temporary_trace(std::string_view lines)
      : file_((std::filesystem::temp_directory_path() / "mailgrad-trace-XXXXXX").string()) {
    const int made = mkstemp(file_.data());
    if (made < 0) throw std::runtime_error("lab: no temporary file can be made for a trace of delays");
    close(made);
    std::ofstream out(file_);
    if (out << lines << std::flush) return;
    unlink(file_.c_str());
    throw std::runtime_error("lab: there is no room for a trace of delays in " + file_);
  }
  ~temporary_trace() { unlink(file_.c_str()); }
  temporary_trace(const temporary_trace&) = delete;
  temporary_trace& operator=(const temporary_trace&) = delete;

  const std::string& file() const noexcept { return file_; }

private:
  std::string file_;
};

constexpr std::uint32_t equal_workers = 8;
constexpr std::size_t equal_coordinates = 100;
constexpr double rate = 0.1;

struct timed_policy {
  const char *name, *policy;
  double seconds; ///< of all steps, counted by hand
};

// The barrier makes 100 updates of 1 s and 100 of 10 s. Afterwards seven fast workers and a slow one train
// 7.1 steps a second.
constexpr timed_policy timed_policies[] = {{"sync", "sync", 100 + 1000},
                                           {"async", "async", 100 + 800 / 7.1},
                                           {"sync, then async", "sync, async@800", 100 + 800 / 7.1}};

struct slowed_path {
  std::vector<figure_point> squares; ///< over time
  double seconds = 0;
  double before = 0; ///< mean square in the second half of the fast time
};

slowed_path run_way(const timed_policy& w, const std::string& trace, std::uint64_t seed,
                    const experiment_options& options) {
  slowed_path made;
  double due = 0;
  std::uint64_t counted = 0;
  quadratic_case c = case_of(fmt::format("quadratic:dimension={},noise=1,start=10", equal_coordinates),
                             equal_workers, "trace:" + trace, w.policy, rate, 1600, seed);
  c.on_read = [&](rank, instant when, std::span<const float> x) {
    const double seconds = in_seconds(when);
    double square = 0;
    for (std::size_t j = 0; j < equal_coordinates; ++j) square += double{x[j]} * x[j] / equal_coordinates;
    if (seconds > 60 && seconds < 100) made.before += square, ++counted;
    if (seconds < due) return;
    made.squares.push_back({seconds, square});
    due = seconds + 4;
  };
  made.seconds = run_quadratic(c, options).report.wall_seconds;
  made.before /= static_cast<double>(counted);
  return made;
}

} // namespace

void run_slowdown(const experiment_options& options, experiment_result& result) {
  const temporary_trace trace("t,worker,duration\n0,0,1\n0,1,1\n0,2,1\n0,3,1\n0,4,1\n0,5,1\n0,6,1\n0,7,1\n"
                              "99.5,0,10\n");
  figure f(
      "error", "A worker becomes ten times as slow after 100 s",
      "Mean square of the weights of a quadratic with noisy gradients, over 1600 steps of eight workers. "
      "The run that switches has the low noise of the barrier first, and the pace of async afterwards.",
      {"virtual time [s]"}, {"mean square", axis_scale::logarithmic});
  std::vector<seeds_mean> floors;
  for (const timed_policy& w : timed_policies) {
    std::vector<slowed_path> runs = over_seeds(options, options.quick ? 3 : 10, [&](std::uint64_t seed) {
      return run_way(w, trace.file(), seed, options);
    });
    result.expect(fmt::format("time of 1600 steps, {}", w.name), "s", "counted by hand", w.seconds,
                  mean_of(runs, std::mem_fn(&slowed_path::seconds)), 20); // the slow one ends last
    floors.push_back(mean_of(runs, std::mem_fn(&slowed_path::before)));
    f.series.push_back({w.name, series_look::points, std::move(runs.back().squares)});
  }
  // (1 - rate)^2 x + rate^2 / 8 stays where it is at this x
  const double floor = rate * rate / equal_workers / (1 - (1 - rate) * (1 - rate));
  result.expect("mean square before the slowdown, sync", "", "closed form", floor, floors[2], 0.1 * floor);
  // the floor of eight workers that take turns, as noise-floor has it
  const double of_async = 11.511 * rate * rate;
  result.expect("the same, async", "", "closed form", of_async, floors[1], 0.1 * of_async);
  result.figures.push_back(std::move(f));
}

} // namespace mailgrad::lab
