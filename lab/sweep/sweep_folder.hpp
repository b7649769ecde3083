#pragma once

#include <mailgrad/files/locks.hpp>
#include <mailgrad/lab/sweep/sweep_file.hpp>
#include <mailgrad/lab/virtual_run.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace mailgrad::lab {

/// A field of a CSV file: quoted where it has to be, and in one line.
std::string csv_field(std::string_view text);
/// With so many digits that it is read back as it was; empty for a number that is none.
std::string csv_field(double number);

/// What a cell of a sweep has come to. Unknown figures are absent.
struct sweep_row {
  std::size_t cell = 0;
  std::vector<std::string> values{}; ///< of the grid's axes
  std::string ended{};               ///< as training_report::ended
  std::string why{};                 ///< one line, if it was not completed
  std::uint64_t steps = 0, updates = 0, samples = 0;
  std::optional<double> final_loss{}, test_loss{}, test_accuracy{}, test_rmse{};
  double virtual_seconds = 0;
  double real_seconds = 0;
  double staleness_mean = 0; ///< versions, of the gradients that were applied
  std::uint64_t staleness_p99 = 0;
  std::uint64_t discarded = 0;               ///< gradients
  std::optional<double> time_to_target{};    ///< virtual seconds until the first test that reached it
  std::optional<double> updates_to_target{}; ///< versions of the weights until then
  std::string parameters_sha256{};
  std::string version{}, commit{}, command{}, processor{}, date{};

  bool completed() const noexcept { return ended == "completed"; }
  /// A run that diverged is a result. One that failed is none, and the next time it may go well.
  bool failed() const noexcept { return ended == "failed"; }
};

/// A test of the weights of a cell, or its end.
struct curve_point {
  std::size_t cell = 0;
  double time = 0; ///< virtual seconds
  std::uint64_t steps = 0, updates = 0;
  std::optional<double> train_loss{}, test_loss{}, test_accuracy{}, test_rmse{};
};

/// The figure of that name, as sweep_target::figure has it.
std::optional<double> figure_of(const curve_point& p, std::string_view figure);

// Lines of CSV without a line feed. Fields are quoted where they have to be, and unknown figures are empty.

std::string row_header(const std::vector<std::string>& axes);
std::string to_csv(const sweep_row& row);
/// None if the line is not whole, or no row of so many axes.
std::optional<sweep_row> row_of(std::string_view line, std::size_t axes);

std::string curve_header();
std::string to_csv(const curve_point& p);
std::optional<curve_point> curve_point_of(std::string_view line);

/// What to do with the rows that a folder has already.
enum class old_rows : std::uint8_t {
  go_on,    ///< keep them, if they are of this sweep and this origin, but those of cells that failed
  set_aside ///< rename their files as keep_older() does, and begin anew
};

/// What the rows of a sweep depend on beside its file.
struct sweep_origin {
  std::string program; ///< what the same numbers need, such as a commit
  /// The SHA-256 of what its values name, by option and value: "data=ratings.csv".
  std::map<std::string, std::string> content{};
};

/// The folder has rows of another sweep, of other content, or of another program.
struct rows_of_another : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

/// The folder of a sweep: sweep.json says which sweep it is, sweep.csv has a row for each cell that has
/// ended, and curves.csv the tests of these cells. A row is written as a whole when its cell has ended, after
/// its curve. Files of these names in a folder without sweep.csv are somebody else's: keep_older() renames
/// them. If the process is killed, a torn last row and curves without a row are dropped the next time.
/// Threads one.
class sweep_folder {
public:
  /// Makes the folder if there is none.
  /// Errors  rows_of_another; std::invalid_argument: it has rows that are none, or another process writes
  ///         there. std::system_error: it cannot be written.
  sweep_folder(std::filesystem::path folder, const sweep& s, const sweep_origin& origin, old_rows what);
  /// Errors  std::runtime_error: the disk is full, for example. There is no row then without its curve.
  void add(const sweep_row& row, std::span<const curve_point> curve);

  /// The rows so far, by rising cell, and the points of their curves.
  std::vector<sweep_row> rows() const;
  const std::vector<curve_point>& curves() const noexcept { return curves_; }
  /// The cells without a row.
  std::vector<std::size_t> missing() const;
  const std::filesystem::path& path() const noexcept { return folder_; }

private:
  void require_same(const std::string& identity) const;
  void read_rows(const sweep& s);
  void read_curves();
  void rewrite(const sweep& s, const std::string& identity) const;
  void open_to_append();
  void write(std::ofstream& to, const std::string& lines) const;

  std::filesystem::path folder_;
  std::vector<std::size_t> cells_; ///< those of the sweep, rising
  folder_lock lock_;
  std::vector<sweep_row> rows_;
  std::vector<curve_point> curves_;
  std::ofstream row_file_, curve_file_;
};

/// Calls `run` with each cell, on so many threads at once, in the order in which they stand. No further cell
/// is begun when `stop` returns true. Returns when all that were begun have ended.
/// Errors  what `run` throws first; no further cell is begun then.
/// Threads `run` and `stop` are called on several.
void run_on_threads(std::span<const std::size_t> cells, unsigned threads,
                    const std::function<void(std::size_t)>& run, const std::function<bool()>& stop);

/// What a run of a cell is made of.
struct cell_terms {
  model_function model;
  std::shared_ptr<const data_split> data;
  training_options options;
  virtual_run_options how;
};

/// What a cell has come to, and the tests of its weights.
struct cell_outcome {
  sweep_row row;
  std::vector<curve_point> curve;
};

/// Runs a cell on the calling thread. `make` gives its terms; what it throws, or the run, is an outcome, too:
/// a cell that failed. The row has neither command nor commit. None if `how.stop` ended the run.
std::optional<cell_outcome> run_cell(const sweep& s, std::size_t cell,
                                     const std::function<cell_terms()>& make);

} // namespace mailgrad::lab
