#pragma once

#include <mailgrad/cli/output/progress_display.hpp>
#include <mailgrad/cli/report/gnuplot.hpp>
#include <mailgrad/engine/account/time_source.hpp>
#include <mailgrad/lab/sweep/sweep_summary.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace mailgrad {

/// The methods of a sweep as a table for a terminal, the best one first.
std::string in_words(const lab::sweep& s, std::span<const lab::sweep_summary> methods,
                     lab::judged_figure judged);

/// One HTML page with the methods of a sweep and its pictures. `rows` tell where they were made.
///
/// Errors  as draw().
std::string page_of(const lab::sweep& s, std::span<const lab::sweep_summary> methods,
                    lab::judged_figure judged, std::span<const lab::sweep_row> rows,
                    std::span<const picture> pictures, const std::string& command);

/// How far a sweep is.
struct sweep_state {
  std::size_t cells = 0; ///< of the whole grid
  std::size_t ended = 0; ///< of these, also by an earlier command
  std::size_t failed = 0;
  std::uint64_t steps = 0;      ///< that the cells of this command take
  std::uint64_t steps_done = 0; ///< of these
};

/// "12 of 48 cells, 1 diverged or failed, 35 s left"
std::string in_words(const sweep_state& s, double seconds);

struct sweep_args {
  std::string file;
  std::string folder;
  unsigned jobs = 0; ///< 0: as many as this process may use cores
  bool restart = false;
  bool quiet = false;
};

/// What `--help` says of the file.
std::string sweep_in_help();

/// Runs the cells of a sweep that have no row yet, and writes tables, pictures and a page of all. What a
/// signal leaves unfinished is left out. Returns an exit code.
///
/// Errors  std::invalid_argument before anything runs, in one line: a file that is none, or a cell that
///         `mailgrad lab run` refuses; std::runtime_error: a table cannot be written.
int run_sweep(const sweep_args& w);

} // namespace mailgrad
