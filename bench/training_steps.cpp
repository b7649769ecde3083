// Measures steps per second of whole training runs: feeding, computing, exchanging, updating. A run is long
// enough that one-time costs (compiling, first touches of memory) do not show.

#include "measuring.hpp"
#include "polynomial.hpp"
#include "random_categories.hpp"

#include <mailgrad/actors/training.hpp>
#include <mailgrad/data/open.hpp>
#include <mailgrad/graph/models/spanning_models.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>

using namespace mailgrad;
using namespace mailgrad::bench;

namespace {

struct run_result {
  training_report report;
  double processors = 0;
  double began = 0, ended = 0; ///< seconds of the system clock, as the peers record them
};

double time_of_day() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

struct words {
  std::string model = "mlp";
  std::string optimizer = "momentum";
  std::string data = "fashion-mnist";
  std::uint32_t devices = 1;
  std::string span = "none";
  double seconds = 3;
};

bool of_polynomial(const words& w) { return w.model == "polynomial"; }

void add_options(CLI::App& parser, words& w, training_options& o) {
  parser.add_option("--model", w.model, "One of Mailgrad's, or polynomial, which brings its own data")
      ->capture_default_str();
  parser.add_option("--optimizer", w.optimizer)->capture_default_str();
  parser.add_option("--data", w.data, "As the tool has it, or random-categories")->capture_default_str();
  parser.add_option("--devices", w.devices, "CPU devices, one worker each unless a model spans them")
      ->capture_default_str();
  parser.add_option("--span", w.span, "One worker, whose model spans all devices: replicate or pipeline")
      ->check(CLI::IsMember({"none", "replicate", "pipeline"}))
      ->capture_default_str();
  parser.add_option("--micro-batches", o.micro_batches)->capture_default_str();
  parser.add_option("--policy", o.policy)->capture_default_str();
  parser.add_option("--shards", o.shards)->capture_default_str();
  parser.add_option("--batch", o.batch)->capture_default_str();
  parser.add_option("--seconds", w.seconds, "How long the measured run takes")->capture_default_str();
}

model_function model_of(const words& w) {
  model_function model = of_polynomial(w) ? polynomial : find_model(w.model);
  if (w.span == "replicate") return replicated(std::move(model));
  return w.span == "pipeline" ? pipelined(std::move(model)) : model;
}

run_result run(const words& w, training_options o, std::shared_ptr<const data_split> data,
               std::uint64_t steps) {
  o.steps = steps;
  const stopwatch watch;
  training t(model_of(w), std::move(data), o);
  while (!t.wait_for(std::chrono::seconds{60})) {
  }
  const double processors = watch.processors();
  const double ended = time_of_day();
  return {t.report(), processors, ended - watch.seconds(), ended};
}

/// Finds the number of steps for a run of the wanted length by shorter runs. One-time costs, such as touching
/// new memory, can dominate a short run, so the number grows until a run is long enough.
run_result run_for(const words& w, const training_options& o, const std::shared_ptr<const data_split>& data) {
  std::uint64_t steps = 8;
  for (;;) {
    run_result tried = run(w, o, data, steps);
    if (tried.report.wall_seconds >= 0.75 * w.seconds) return tried;
    const double wanted = std::ceil(tried.report.steps_per_second() * w.seconds);
    steps = std::clamp(static_cast<std::uint64_t>(wanted), 2 * steps, 8 * steps);
  }
}

} // namespace

int main(int argc, char** argv) try {
  words w;
  training_options o;
  CLI::App parser{"Steps per second of a training run"};
  add_options(parser, w, o);
  CLI11_PARSE(parser, argc, argv);
  o.optimizer = parse_optimizer(w.optimizer);
  o.optimizer.learning_rate = of_polynomial(w) ? 0.1 : 1e-3;
  o.devices.clear();
  for (std::uint32_t i = 0; i < w.devices; ++i) o.devices.push_back({device_kind::cpu, i});
  if (w.span != "none") o.workers = 1;
  const auto data = of_polynomial(w)                ? polynomial_samples()
                    : w.data == "random-categories" ? std::make_shared<data_split>(random_categories())
                                                    : std::make_shared<data_split>(open_data(w.data));
  data->test = {}; // the quality of the weights is not measured

  const run_result r = run_for(w, o, data);
  if (r.report.ended != "completed")
    throw std::runtime_error("the run " + r.report.ended + ": " + r.report.why);
  if (!r.report.ledger.balances()) throw std::runtime_error("the ledger does not balance");
  std::printf("from: %.3f to %.3f\n", r.began, r.ended);
  std::printf("steps: %.2f steps/s\nprocessors: %.3f\nstaleness: %.3f versions\nwaited: %.4f s of %.4f s\n",
              r.report.steps_per_second(), r.processors, r.report.staleness.mean(),
              r.report.waits.barrier + r.report.waits.feeder, r.report.wall_seconds);
  for (const stage_figures& p : r.report.stages)
    std::printf("busy: %.3f of the time, %s\n", p.busy_seconds / r.report.wall_seconds, p.device.c_str());
} catch (const std::exception& e) {
  std::cerr << e.what() << '\n';
  return EXIT_FAILURE;
}
