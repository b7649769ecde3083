#pragma once

#include <mailgrad/lab/experiment.hpp>

#include <cstdint>
#include <string>

namespace mailgrad {

struct experiment_words {
  bool quick = false;
  std::uint64_t seed = 1;
  std::string data;   ///< to train on; empty: the experiment's own
  std::string output; ///< the folder for tables, pictures and the page; empty: none are written
  bool quiet = false; ///< without the introduction
};

/// Runs an experiment, prints its claims, and writes what the words ask for. What a signal leaves unfinished
/// is left out. Returns an exit code.
///
/// Errors  std::invalid_argument if there can be no such folder; those of open_data(); std::runtime_error if
///         a picture cannot be drawn.
int run_experiment(const lab::experiment& e, const experiment_words& w);

} // namespace mailgrad
