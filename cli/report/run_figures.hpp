#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mailgrad {

/// A line of the curve of a run: where it stood at some moment.
struct curve_point {
  double time_s = 0; ///< since the run began
  double steps = 0, updates = 0, samples = 0;
  std::optional<double> train_loss; ///< mean since the point before
  std::optional<double> test_loss{}, test_accuracy{}, test_rmse{};
  std::optional<double> validation_loss{}, validation_accuracy{}, validation_rmse{};
};

/// How often each gap of staleness occurred, as pairs of gap and count, the gaps rising.
using gap_counts = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

/// One part of the way of a gradient, such as "compute".
struct time_part {
  std::string name;
  double seconds = 0, mean = 0, longest = 0;
};

/// What one worker did.
struct worker_figures {
  gap_counts gaps;             ///< over all shards
  std::uint64_t gradients = 0; ///< applied or merged, by the shard that took most of them
  double compute_seconds = 0;
  double barrier_seconds = 0, bound_seconds = 0, feeder_seconds = 0; ///< waited
};

/// A sampled gradient at one shard.
struct sampled_point {
  double lag = 0;               ///< versions
  double gap = 0;               ///< weights, as a root mean square
  std::optional<double> cosine; ///< to a fresh gradient
};

struct switch_figures {
  std::uint64_t step = 0;
  std::string from, to, why;
};

/// What a report tells of a run, as far as the page needs it.
struct run_figures {
  std::string file; ///< where it was read
  /// Rows of the table, a name and a text each, in the order in which they are shown.
  std::vector<std::pair<std::string, std::string>> facts;
  std::string policy;
  std::uint64_t steps = 0, updates = 0;
  double wall_seconds = 0;
  bool local_steps = false;
  gap_counts gaps;
  std::vector<worker_figures> workers; ///< by rank
  std::vector<time_part> times;        ///< those that were measured
  std::vector<switch_figures> switches;
  std::vector<sampled_point> sampled;            ///< none in a report of an older version
  std::optional<std::vector<curve_point>> curve; ///< none in a report of an older version
};

/// Reads a report that `mailgrad train --report` wrote.
///
/// Errors  file_error in one line, with the field, what was expected and what was found: the file cannot be
///         read, is damaged, is no report, or contradicts itself.
run_figures read_report(const std::string& file);

} // namespace mailgrad
