#pragma once

#include <mailgrad/files/locks.hpp>
#include <mailgrad/lab/sweep/sweep_file.hpp>
#include <mailgrad/lab/sweep/sweep_row.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace mailgrad::lab {

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
///
/// Threads one.
class sweep_folder {
public:
  /// Makes the folder if there is none.
  ///
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
  void set_aside() const;
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
///
/// Errors  what `run` throws first; no further cell is begun then.
/// Threads `run` and `stop` are called on several.
void run_on_threads(std::span<const std::size_t> cells, unsigned threads,
                    const std::function<void(std::size_t)>& run, const std::function<bool()>& stop);

} // namespace mailgrad::lab
