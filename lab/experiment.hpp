#pragma once

#include <mailgrad/data/dataset.hpp>
#include <mailgrad/engine/account/run_trace.hpp>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mailgrad::lab {

/// How much a value differs from seed to seed, or from one group of runs to another.
struct seeds_spread {
  static constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

  /// The standard deviation; unknown of one seed, of a ratio of means, and where chance has no part.
  double deviation = unknown;
  std::uint64_t seeds = 1; ///< or groups of runs
  /// The standard deviation of the mean over so many of them.
  double error_of_mean() const noexcept { return deviation / std::sqrt(static_cast<double>(seeds)); }
};

/// The mean of values over seeds, and how they differ; or one value that chance has no part in.
struct seeds_mean {
  double mean;
  seeds_spread spread;

  seeds_mean(double value = 0, seeds_spread of = {}) : mean(value), spread(of) {}
  /// In another unit.
  friend seeds_mean operator/(const seeds_mean& m, double by) {
    return {m.mean / by, {m.spread.deviation / by, m.spread.seeds}};
  }

  /// So far off, or farther, is the mean of normal values by chance in one of 10,000 cases: Student's
  /// quantile times the standard error. With 600 values it is 3.9 standard errors, with 40 it is 4.3, and
  /// with two it is thousands. Where theory knows how far values differ, chance_of_mean()
  /// (experiments/quadratic_run.hpp) is narrower.
  double by_chance() const;
};

/// In a line, one whose y is no number is where the line breaks off.
struct figure_point {
  double x = 0;
  double y = 0;
  double spread = 0; ///< of y, over seeds; 0: none is drawn
  /// Where a bar through the point begins and ends, such as quartiles; no numbers: `spread` says so.
  double low = std::numeric_limits<double>::quiet_NaN(), high = low;
};

enum class series_look : std::uint8_t {
  line,
  points,
  joined, ///< points, and a line from each to the next
  bars,   ///< a box from each point to the next, and a third point that is no number
};

/// What is known is a line, and what was measured is points, wherever a figure has both.
struct figure_series {
  std::string name;
  series_look look = series_look::points;
  std::vector<figure_point> points{};

  template <class Number>
  void add(Number x, double y, double spread = 0) {
    points.push_back({static_cast<double>(x), y, spread});
  }
  template <class Number>
  void add(Number x, const seeds_mean& y) {
    add(x, y.mean, y.spread.deviation);
  }
};

enum class axis_scale : std::uint8_t {
  linear,
  logarithmic, ///< with marks at powers of ten
  doubling,    ///< with marks at powers of two
};

struct figure_axis {
  std::string label; ///< with its unit: "time [s]"
  axis_scale scale = axis_scale::linear;
  std::vector<std::string> marks{}; ///< the names of 1, 2, ... on an axis of names; empty: it has numbers
};

/// A picture of an experiment as numbers; whoever draws it decides how it looks.
struct figure {
  figure(std::string file, std::string heading, std::string words, figure_axis along, figure_axis up,
         std::vector<figure_series> drawn = {})
      : name(std::move(file)), title(std::move(heading)), caption(std::move(words)), x(std::move(along)),
        y(std::move(up)), series(std::move(drawn)) {}

  std::string name; ///< of its file, without a suffix
  std::string title;
  std::string caption; ///< what it shows, in whole sentences
  figure_axis x, y;
  std::vector<figure_series> series; ///< at most six
};

/// What each worker of a run did until a moment, a row for each: bars where it computed, lines where it
/// waited and for what, and marks where a gradient of it was discarded. What takes no time on a virtual clock
/// is not drawn. The run has had training_options::trace_events.
figure timeline_figure(const run_trace& trace, std::uint32_t workers, double until_seconds, std::string name,
                       std::string title);

/// How a measured value relates to the expected one.
enum class relation : std::uint8_t {
  equals,   ///< within the tolerance
  at_most,  ///< no larger, but for the tolerance
  at_least, ///< no smaller, but for the tolerance
};

/// A value that is known exactly or was published, and what the actors that train made of it.
struct claim {
  static constexpr double unknown = seeds_spread::unknown;

  std::string name;          ///< "largest stable step, delay 4"
  std::string unit;          ///< empty for a number without one
  std::string expected_from; ///< "closed form", or the table of a paper
  double expected = 0;
  double measured = 0;
  seeds_spread spread{};
  double tolerance = 0; ///< in the unit of both
  relation how = relation::equals;

  bool holds() const noexcept {
    const double off = measured - expected; // a NaN holds nothing
    const bool is_small = off <= tolerance, is_large = off >= -tolerance;
    return how == relation::at_most ? is_small : how == relation::at_least ? is_large : is_small && is_large;
  }
};

/// How to run an experiment.
struct experiment_options {
  bool quick = false;           ///< under 15 seconds on two cores, with fewer seeds and wider tolerances
  std::uint64_t seed = 1;       ///< the first of the seeds
  std::function<bool()> stop{}; ///< asked now and then; true: no more is run. May be empty
  /// What an experiment that takes data trains on, in place of samples of its own. May be null.
  std::shared_ptr<const data_split> data{};
};

/// An experiment was stopped by experiment_options::stop.
struct experiment_stopped : std::runtime_error {
  experiment_stopped() : std::runtime_error("stopped on request") {}
};

/// What an experiment has found so far. One that is stopped keeps what it had finished.
struct experiment_result {
  std::vector<claim> claims;
  std::vector<figure> figures;

  bool holds() const noexcept;
  /// Adds a claim.
  void expect(std::string name, std::string unit, std::string from, double expected, const seeds_mean& found,
              double tolerance = 0, relation how = relation::equals);
};

/// An experiment: a claim about staleness, and runs of the actors that train which show whether it holds.
struct experiment {
  std::string_view name;  ///< "stability-map"
  std::string_view claim; ///< one line
  std::string_view paper; ///< who found it
  /// Errors  experiment_stopped; `result` has what was finished.
  void (*run)(const experiment_options& options, experiment_result& result);
  bool takes_data = false; ///< whether experiment_options::data makes a difference to it
};

/// All experiments, in the order in which they are listed. A new one is a file in experiments/ and a row in
/// experiment.cpp.
std::span<const experiment> experiments() noexcept;

/// Lines "experiment,figure,series,x,y,spread" below a header line; one for each point of each figure.
std::string points_csv(std::string_view experiment, const experiment_result& r);
/// Lines "experiment,claim,unit,relation,expected,expected_from,measured,spread,seeds,tolerance,holds".
std::string claims_csv(std::string_view experiment, const experiment_result& r);

} // namespace mailgrad::lab
