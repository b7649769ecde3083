#pragma once

#include <mailgrad/data/dataset.hpp>
#include <mailgrad/lab/claim.hpp>
#include <mailgrad/lab/figure.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace mailgrad::lab {

/// How to run an experiment.
struct experiment_options {
  bool quick = false;           ///< under 15 seconds on two cores, with fewer seeds and wider tolerances
  std::uint64_t seed = 1;       ///< the first of the seeds
  std::function<bool()> stop{}; ///< asked now and then; true: no more is run. May be empty
  /// What an experiment that takes data trains on, in place of samples of its own. May be null.
  std::shared_ptr<const data_split> data{};
};

/// An experiment was stopped by experiment_options::stop.
struct experiment_stopped : std::runtime_error {
  experiment_stopped() : std::runtime_error("stopped on request") {}
};

/// What an experiment has found so far. One that is stopped keeps what it had finished.
struct experiment_result {
  std::vector<claim> claims;
  std::vector<figure> figures;

  bool holds() const noexcept;
};

/// An experiment: a claim about staleness, and runs of the actors that train which show whether it holds.
struct experiment {
  std::string_view name;  ///< "stability-map"
  std::string_view claim; ///< one line
  std::string_view paper; ///< who found it
  /// Errors  experiment_stopped; `result` has what was finished.
  void (*run)(const experiment_options& options, experiment_result& result);
  bool takes_data = false; ///< whether experiment_options::data makes a difference to it
};

/// All experiments, in the order in which they are listed. A new one is a file in experiments/ and a line
/// here.
std::span<const experiment> experiments() noexcept;

/// Lines "experiment,figure,series,x,y,spread" below a header line; one for each point of each figure.
std::string points_csv(std::string_view experiment, const experiment_result& r);
/// Lines "experiment,claim,unit,relation,expected,expected_from,measured,spread,seeds,tolerance,holds".
std::string claims_csv(std::string_view experiment, const experiment_result& r);

} // namespace mailgrad::lab
