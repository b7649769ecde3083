#pragma once

#include <mailgrad/engine/account/run_trace.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace mailgrad::lab {

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
  std::string name; ///< of its file, without a suffix
  std::string title;
  std::string caption; ///< what it shows, in whole sentences
  figure_axis x{}, y{};
  std::vector<figure_series> series{}; ///< at most six
};

/// What each worker of a run did until a moment, a row for each: bars where it computed, lines where it
/// waited and for what, and marks where a gradient of it was discarded.
///
/// The run has had training_options::trace_events. What its workers did beside that takes no time in a run on
/// a virtual clock, and is not drawn.
figure timeline_figure(const run_trace& trace, std::uint32_t workers, double until_seconds, std::string name,
                       std::string title);

} // namespace mailgrad::lab
