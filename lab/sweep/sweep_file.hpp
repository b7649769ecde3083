#pragma once

#include <mailgrad/lab/virtual_run.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mailgrad::lab {

/// An option of a run by its long name, and its value.
struct sweep_setting {
  std::string key;
  std::string value;

  friend bool operator==(const sweep_setting&, const sweep_setting&) = default;
};

/// An option that takes several values in turn.
struct sweep_axis {
  std::string key;
  std::vector<std::string> values; ///< at least one, none twice
};

/// A figure of the tests of a run, and from which value on the run is good enough.
struct sweep_target {
  std::string figure; ///< "test_accuracy", "test_loss", "test_rmse" or "train_loss"
  double value = 0;

  bool reached_by(double measured) const noexcept;
};

/// What a cell of a sweep has come to; in sweep_folder.hpp.
struct sweep_row;

/// A grid of runs in virtual time. Its cells are numbered from 0, and the values of its last axis change
/// fastest.
///
///     const auto rows = lab::sweep{.grid = {{"policy", {"async", "ssp:3"}}, {"seed", {"1", "2", "3"}}}}.run(
///         mlp({32}), fashion_mnist(), {.steps = 200}, {.workers = 4});
struct sweep {
  std::vector<sweep_setting> settings{}; ///< the same in each cell
  std::vector<sweep_axis> grid{};        ///< at least one
  /// Values of axes that make no sense together: cells that have all values of one of these are left out.
  std::vector<std::vector<sweep_setting>> without{};
  std::string tune{}; ///< the axis of which each method takes its best value; empty: none
  std::optional<sweep_target> target{};
  std::uint64_t tests = 20; ///< of the weights of a run, at equal distances; the last one at its end

  std::size_t cells() const noexcept; ///< of the whole grid
  /// The numbers of those that are not left out.
  std::vector<std::size_t> kept_cells() const;
  /// A value for each axis.
  std::vector<std::string> values_of(std::size_t cell) const;
  /// Those of all cells, and then those of the grid. Runs with different seeds have delays of their own, too.
  std::vector<sweep_setting> settings_of(std::size_t cell) const;
  /// The place of an axis in the grid, if there is one of that name.
  std::optional<std::size_t> axis(std::string_view key) const;

  /// Runs every cell, as many at once as this process has cores, with the settings of the cell in place of
  /// these options. Steps take exponential times unless the options say otherwise. summaries_of() and
  /// tuned() compare the rows, which rise by cell. A run that fails or diverges has a row that says so;
  /// without a row is what `how.stop` ended. `how.on_progress` is called from several threads.
  ///
  /// The settings are some of `mailgrad lab run`: batch, clip-norm, cure, delays, delays-seed, epochs,
  /// latency, local-steps, lr, optimizer, policy, seed, shards, steps, workers.
  ///
  /// Errors  std::invalid_argument in one line, before any cell runs: another setting, a wrong value, and
  ///         those of virtual_run.
  std::vector<sweep_row> run(const model_function& model, const shared_data& data,
                             const training_options& options = {}, const virtual_run_options& how = {}) const;
};

/// The axis over which medians and quartiles are taken.
inline constexpr std::string_view seed_key = "seed";
/// The axis along which speed-ups are measured.
inline constexpr std::string_view workers_key = "workers";

/// After how many steps the weights of a run of `steps` are tested, so that there are `tests` at most, with
/// the one at its end.
std::uint64_t steps_between_tests(std::uint64_t steps, std::uint64_t tests) noexcept;

/// Reads a sweep from JSON:
///
///     {"run": {"model": "softmax", "epochs": 1}, "grid": {"policy": ["async", "sync"], "lr": [0.1, 0.2]},
///      "without": [{"policy": "sync", "lr": 0.2}], "tune": "lr", "target": {"test_accuracy": 0.9}, "tests": 20}
///
/// Errors  std::invalid_argument in one line that names the key: no such JSON, an unknown key, a key that is
///         there twice, no grid, no or equal values, a target or a tuned axis that there is not.
sweep parse_sweep(std::string_view json);

/// The same sweep as JSON of one form, by which two can be compared.
std::string to_json(const sweep& s);

} // namespace mailgrad::lab
