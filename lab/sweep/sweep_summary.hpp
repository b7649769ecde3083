#pragma once

#include <mailgrad/lab/experiment.hpp>
#include <mailgrad/lab/sweep/sweep_file.hpp>
#include <mailgrad/lab/sweep/sweep_folder.hpp>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mailgrad::lab {

/// The median of some numbers, and the numbers below which a quarter and three quarters of them lie.
struct quartiles {
  double low = 0;
  double median = 0;
  double high = 0;
};

/// Between two neighbours they are interpolated, as numpy does by default. Infinite numbers are allowed.
/// Errors  std::invalid_argument if there is no number.
quartiles quartiles_of(std::vector<double> numbers);

/// The figure by which methods are compared: the first of these that any run has.
enum class judged_figure : std::uint8_t { test_accuracy, test_rmse, test_loss, final_loss };

judged_figure judged_by(std::span<const sweep_row> rows);
std::string_view name_of(judged_figure f) noexcept;

/// What the runs of one setting, which differ in their seed alone, have in common. A run that was not
/// completed counts as one with the worst figure, which is infinite, and one that did not reach the target as
/// one that takes for ever.
struct sweep_summary {
  std::vector<std::string> values; ///< of the grid's axes; that of the seed is empty
  std::vector<std::size_t> cells;
  std::size_t completed = 0, reached = 0;                                           ///< of these cells
  std::optional<quartiles> test_accuracy{}, test_rmse{}, test_loss{}, final_loss{}; ///< none: no run has it
  std::optional<quartiles> virtual_seconds{}, staleness_mean{};                     ///< of completed runs
  std::optional<quartiles> time_to_target{}; ///< none if the sweep has no target
  std::optional<double> speed_up{}; ///< of the median time to target, to that with the fewest workers

  const std::optional<quartiles>& judged(judged_figure f) const noexcept;
  /// Whether its median is better than that of another.
  bool better_than(const sweep_summary& other, judged_figure f) const noexcept;
};

/// A summary for each setting that has rows, in the order of the grid.
std::vector<sweep_summary> summaries_of(const sweep& s, std::span<const sweep_row> rows);

/// Of each method, that is of each setting of all axes but the seed and the tuned one, the summary with the
/// best median. Speed-ups are those among these.
std::vector<sweep_summary> tuned(const sweep& s, std::span<const sweep_summary> settings, judged_figure f);

/// The cell of a summary whose run was completed with the figure next to the median; none if no run was.
std::optional<std::size_t> median_cell(const sweep_summary& m, std::span<const sweep_row> rows,
                                       judged_figure f);

/// A line for each method below a header line. Infinite numbers are empty.
std::string summary_csv(const sweep& s, std::span<const sweep_summary> methods);

/// What distinguishes a setting: its values on the axes with more than one, but for the seed and `without`.
/// "ssp:3, inverse, workers 8"; "all runs" if nothing does.
std::string words_of(const sweep& s, const sweep_summary& m, std::initializer_list<std::string_view> without);

/// The pictures that a sweep has numbers for: the judged figure by the tuned value, by workers or by method,
/// time to target and speed-up by workers, and the loss by virtual time of the median run of each method.
/// Each has at most six series, the best ones, and its caption names those that are left out.
std::vector<figure> figures_of(const sweep& s, std::span<const sweep_row> rows,
                               std::span<const curve_point> curves);

} // namespace mailgrad::lab
