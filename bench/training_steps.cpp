// Steps per second of whole training runs: feeding, computing, exchanging, updating. The run is made as long
// as asked for, so that what happens once (compiling, first touches of memory) does not show.

#include "measuring.hpp"
#include "polynomial.hpp"
#include "random_categories.hpp"

#include <mailgrad/actors/training.hpp>
#include <mailgrad/data/open.hpp>

#include <CLI/CLI.hpp>

#include <cmath>
#include <cstdlib>
#include <iostream>

using namespace mailgrad;
using namespace mailgrad::bench;

namespace {

struct run_result {
  training_report report;
  double processors = 0;
};

struct words {
  std::string model = "mlp";
  std::string optimizer = "momentum";
  std::string data = "fashion-mnist";
  std::uint32_t devices = 1;
  double seconds = 3;
};

bool of_polynomial(const words& w) { return w.model == "polynomial"; }

void add_options(CLI::App& parser, words& w, training_options& o) {
  parser.add_option("--model", w.model, "One of Mailgrad's, or polynomial, which brings its own data")
      ->capture_default_str();
  parser.add_option("--optimizer", w.optimizer)->capture_default_str();
  parser.add_option("--data", w.data, "As the tool has it, or random-categories")->capture_default_str();
  parser.add_option("--devices", w.devices, "CPU devices, one worker each")->capture_default_str();
  parser.add_option("--policy", o.policy)->capture_default_str();
  parser.add_option("--shards", o.shards)->capture_default_str();
  parser.add_option("--batch", o.batch)->capture_default_str();
  parser.add_option("--seconds", w.seconds, "How long the measured run takes")->capture_default_str();
}

run_result run(const words& w, training_options o, std::shared_ptr<const data_split> data,
               std::uint64_t steps) {
  o.steps = steps;
  const stopwatch watch;
  training t(of_polynomial(w) ? polynomial : find_model(w.model), std::move(data), o);
  while (!t.wait_for(std::chrono::seconds{60})) {
  }
  const double processors = watch.processors();
  return {t.report(), processors};
}

/// A few short runs find how many steps the long one takes.
run_result run_for(const words& w, const training_options& o, const std::shared_ptr<const data_split>& data) {
  std::uint64_t steps = 8;
  for (;;) {
    const run_result tried = run(w, o, data, steps);
    if (tried.report.wall_seconds < w.seconds / 8) {
      steps *= 4;
      continue;
    }
    const double wanted = tried.report.steps_per_second() * w.seconds;
    return run(w, o, data, static_cast<std::uint64_t>(std::ceil(wanted)));
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
  const auto data = of_polynomial(w)                ? polynomial_samples()
                    : w.data == "random-categories" ? std::make_shared<data_split>(random_categories())
                                                    : std::make_shared<data_split>(open_data(w.data));
  data->test = {}; // nobody asks how good the weights are

  const run_result r = run_for(w, o, data);
  if (r.report.ended != "completed")
    throw std::runtime_error("the run " + r.report.ended + ": " + r.report.why);
  if (!r.report.ledger.balances()) throw std::runtime_error("the ledger does not balance");
  std::printf("steps: %.2f steps/s\nprocessors: %.3f\nstaleness: %.3f versions\nwaited: %.4f s of %.4f s\n",
              r.report.steps_per_second(), r.processors, r.report.staleness.mean(),
              r.report.waits.barrier + r.report.waits.feeder, r.report.wall_seconds);
} catch (const std::exception& e) {
  std::cerr << e.what() << '\n';
  return EXIT_FAILURE;
}
