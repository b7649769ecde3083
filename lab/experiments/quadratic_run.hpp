#pragma once

#include <mailgrad/engine/account/training_report.hpp>
#include <mailgrad/lab/experiment.hpp>
#include <mailgrad/lab/virtual_run.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace mailgrad::lab {

/// A run of a quadratic in virtual time. The model is one of `mailgrad lab run`, too.
struct quadratic_case {
  std::string model; ///< "quadratic:dimension=1"
  /// The centre of each worker's own quadratic; empty: it is 0 for all.
  std::vector<float> targets{};
  std::uint32_t workers = 1;
  std::string delays = "constant:1";
  std::string policy = "async";
  std::string cure = "none";
  std::string optimizer = "sgd";
  double learning_rate = 1;
  std::uint64_t local_steps = 0; ///< of a worker between two exchanges; 0: none
  std::string outer = "sgd";     ///< the optimiser of the shard, if there are local steps
  double outer_rate = 1;
  wire_terms wire{};            ///< how gradients travel
  bool interrupts = false;      ///< as virtual_run_options::interrupts
  std::uint64_t steps = 1;      ///< mini-batches of all workers
  std::uint64_t seed = 1;       ///< of times and of noise
  std::size_t trace_events = 0; ///< of each actor's timeline; 0: there is none
  std::uint64_t sample_gap = 0; ///< every so many gradients of a worker one is sampled; 0: none
  /// Asked now and then; true: the run has what it is for, and ends. May be empty.
  std::function<bool()> ends_early{};
  /// Called with what each worker has read when it begins a step; may be empty.
  std::function<void(rank, instant, std::span<const float>)> on_read{};
};

struct quadratic_outcome {
  training_report report;
  std::vector<float> weights; ///< at the end
  run_trace trace{};          ///< if one was asked for
};

/// Errors  experiment_stopped; those of virtual_run.
quadratic_outcome run_quadratic(const quadratic_case& c, const experiment_options& options);

/// The mean of values over seeds, and how they differ.
struct seeds_mean {
  double mean = 0;
  seeds_spread spread{};

  /// So far off, or farther, is the mean of normal values by chance in one of 10,000 cases, however few they
  /// are: Student's quantile times the standard error. With 600 values it is 3.9 standard errors, with 40 it
  /// is 4.3, and with two it is thousands. It is as wide as the values differ, so where theory knows how far
  /// these differ, it is better to take that (chance_of_mean).
  double by_chance() const;
};
seeds_mean mean_over_seeds(std::span<const double> values);

/// How far off a mean of `count` independent values may be whose standard deviation is known: four standard
/// errors, which it is by chance in one of 15,000 cases.
double chance_of_mean(double deviation, double count);

} // namespace mailgrad::lab
