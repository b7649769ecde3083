#include <mailgrad/lab/experiments/quadratic_run.hpp>

#include <numeric>

namespace mailgrad::lab {

namespace {

/// Samples without features, since a quadratic reads none, and with these targets.
dataset samples_of(std::vector<float> targets) {
  return {float_features{{1}, std::vector<float>(targets.size())}, std::move(targets)};
}

std::shared_ptr<const data_split> data_of(const std::vector<float>& targets) {
  static const auto of_zero =
      std::make_shared<const data_split>(data_split{samples_of({0}), samples_of({0}), "none", {}});
  if (targets.empty()) return of_zero;
  return std::make_shared<const data_split>(data_split{samples_of(targets), samples_of(targets), "own", {}});
}

training_options options_of(const quadratic_case& c) {
  training_options o;
  o.policy = c.policy;
  o.cure = c.cure;
  o.delays = c.delays;
  o.delays_seed = o.seed = c.seed;
  o.optimizer = parse_optimizer(c.optimizer);
  o.optimizer.learning_rate = c.learning_rate;
  o.local_steps = c.local_steps;
  o.outer = parse_optimizer(c.outer);
  o.outer.learning_rate = c.outer_rate;
  o.batch = 1;
  o.steps = c.steps;
  o.model_name = c.model;
  o.trace_events = c.trace_events;
  o.sample_gap = c.sample_gap;
  o.when_diverged = on_divergence::go_on; // how far it gets is a figure of the experiment
  return o;
}

} // namespace

quadratic_outcome run_quadratic(const quadratic_case& c, const experiment_options& options) {
  const auto asked_to_stop = [&] { return options.stop && options.stop(); };
  if (asked_to_stop()) throw experiment_stopped();
  virtual_run_options lab{c.workers};
  lab.stop = [&] { return asked_to_stop() || (c.ends_early && c.ends_early()); };
  lab.on_read = c.on_read;
  lab.local_samples = !c.targets.empty();
  lab.wire = c.wire;
  lab.interrupts = c.interrupts;
  virtual_run run(find_model(c.model), data_of(c.targets), options_of(c), std::move(lab));
  run.run();
  quadratic_outcome made{run.report(), {}};
  if (made.report.ended == "stopped" && asked_to_stop()) throw experiment_stopped();
  const std::span<const float> weights = run.parameters();
  made.weights.assign(weights.begin(), weights.end());
  if (c.trace_events > 0) made.trace = run.trace();
  return made;
}

double chance_of_mean(double deviation, double count) { return 4 * deviation / std::sqrt(count); }

seeds_mean mean_over_seeds(std::span<const double> values) {
  const auto n = static_cast<double>(values.size());
  seeds_mean m{std::accumulate(values.begin(), values.end(), 0.0) / n, {claim::unknown, values.size()}};
  if (values.size() < 2) return m;
  double squares = 0;
  for (const double v : values) squares += (v - m.mean) * (v - m.mean);
  m.spread.deviation = std::sqrt(squares / (n - 1));
  return m;
}

} // namespace mailgrad::lab
