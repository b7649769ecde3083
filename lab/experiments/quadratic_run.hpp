#pragma once

#include <mailgrad/engine/account/training_report.hpp>
#include <mailgrad/lab/experiment.hpp>
#include <mailgrad/lab/virtual_run.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace mailgrad::lab {

/// A run of a quadratic in virtual time. The model is one of `mailgrad lab run`, too.
struct quadratic_case {
  std::string model; ///< "quadratic:dimension=1"
  std::uint32_t workers = 1;
  std::string delays = "constant:1";
  std::string policy = "async";
  double learning_rate = 1;
  std::uint64_t steps = 1; ///< mini-batches of all workers
  std::uint64_t seed = 1;  ///< of times and of noise
  std::string cure = "none";
  std::string optimizer = "sgd";
  std::vector<float> targets{};  ///< the centre of each worker's own quadratic; empty: it is 0 for all
  std::uint64_t local_steps = 0; ///< of a worker between two exchanges; 0: none
  std::string outer = "sgd";     ///< the optimiser of the shard, if there are local steps
  double outer_rate = 1;
  wire_terms wire{};            ///< how gradients travel
  bool interrupts = false;      ///< as virtual_run_options::interrupts
  std::size_t trace_events = 0; ///< of each actor's timeline; 0: there is none
  std::uint64_t sample_gap = 0; ///< every so many gradients of a worker one is sampled; 0: none
  /// Asked now and then; true: the run has what it is for, and ends. May be empty.
  std::function<bool()> ends_early{};
  /// Called with what each worker has read when it begins a step; may be empty.
  std::function<void(rank, instant, std::span<const float>)> on_read{};
};

/// A case of plain descent, without a cure.
inline quadratic_case case_of(std::string model, std::uint32_t workers, std::string delays,
                              std::string policy, double learning_rate, std::uint64_t steps,
                              std::uint64_t seed) {
  return {std::move(model), workers, std::move(delays), std::move(policy), learning_rate, steps, seed};
}

struct quadratic_outcome {
  training_report report;
  std::vector<float> weights; ///< at the end
  run_trace trace{};          ///< if one was asked for
};

/// Errors  experiment_stopped; those of virtual_run.
quadratic_outcome run_quadratic(const quadratic_case& c, const experiment_options& options);

seeds_mean mean_over_seeds(std::span<const double> values);

/// What is found with each of so many seeds, from that of the options on.
template <class Find>
auto over_seeds(const experiment_options& options, std::uint64_t seeds, const Find& find) {
  std::vector<decltype(find(options.seed))> found;
  for (std::uint64_t s = 0; s < seeds; ++s) found.push_back(find(options.seed + s));
  return found;
}
/// The mean of what is found with each seed.
template <class Find>
seeds_mean mean_over_seeds(const experiment_options& options, std::uint64_t seeds, const Find& find) {
  return mean_over_seeds(over_seeds(options, seeds, find));
}

/// The mean of a figure of runs with one seed each.
template <class Run, class Figure>
seeds_mean mean_of(const std::vector<Run>& runs, const Figure& figure) {
  std::vector<double> values;
  for (const Run& r : runs) values.push_back(figure(r));
  return mean_over_seeds(values);
}

/// How far off a mean of `count` independent values may be whose standard deviation is known: four standard
/// errors, which it is by chance in one of 15,000 cases.
double chance_of_mean(double deviation, double count);

/// The mean square distance of numbers from a centre.
template <class Numbers>
double mean_square(const Numbers& numbers, double centre = 0) {
  double sum = 0;
  for (const double x : numbers) sum += (x - centre) * (x - centre);
  return sum / static_cast<double>(numbers.size());
}

} // namespace mailgrad::lab
