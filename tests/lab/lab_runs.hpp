#pragma once

#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/engine/small_problem.hpp>

#include <mailgrad/lab/virtual_run.hpp>

#include <cstdint>
#include <string>

// Runs in virtual time of a model so small that its gradients cost little beside the messages.

namespace mailgrad::testing {

struct lab_case {
  std::uint32_t workers = 2;
  std::string delays = "exp";
  std::string policy = "async";
  std::uint64_t steps = 1000; ///< of all workers
  std::uint64_t seed = 1;
};

inline training_options lab_options(const lab_case& c) {
  training_options o;
  o.policy = c.policy;
  o.steps = c.steps;
  o.batch = 1;
  o.delays = c.delays;
  o.delays_seed = c.seed;
  o.optimizer = sgd(1e-4); // the weights hardly move, so no run diverges
  return o;
}

/// Gradients large enough to tell runs apart.
inline training_options lively_options(const lab_case& c) {
  training_options o = lab_options(c);
  o.batch = 4;
  o.optimizer = sgd(0.1);
  return o;
}

inline lab::virtual_run_options lab_delays(const lab_case& c) { return {c.workers}; }

inline training_report run_in_lab(const training_options& o, const lab::virtual_run_options& how) {
  lab::virtual_run run(small_model(), small_data(), o, how);
  run.run();
  return run.report();
}
inline training_report run_in_lab(const lab_case& c) { return run_in_lab(lab_options(c), lab_delays(c)); }
inline training_report run_lively(const lab_case& c) { return run_in_lab(lively_options(c), lab_delays(c)); }

inline double updates_per_second(const training_report& r) {
  return static_cast<double>(r.updates) / r.wall_seconds;
}
inline double seconds_per_update(const training_report& r) { return 1 / updates_per_second(r); }

} // namespace mailgrad::testing
