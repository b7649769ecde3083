#pragma once

#include <mailgrad/lab/sweep/sweep_file.hpp>
#include <mailgrad/lab/sweep/sweep_folder.hpp>
#include <mailgrad/lab/virtual_run.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace mailgrad::lab {

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
