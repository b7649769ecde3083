#pragma once

#include <string>

namespace mailgrad {

struct sweep_words {
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
int run_sweep(const sweep_words& w);

} // namespace mailgrad
