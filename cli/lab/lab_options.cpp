#include <mailgrad/cli/lab/lab_options.hpp>

#include <mailgrad/cli/option_checks.hpp>
#include <mailgrad/cli/remote/remote_words.hpp>

#include <mailgrad/engine/weights/weights_file.hpp>
#include <mailgrad/engine/wire/wire_format.hpp>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

namespace mailgrad {

namespace {

void add_link_options(CLI::App& parser, train_words& w) {
  const std::string group = "How gradients travel";
  parser
      .add_option(
          "--latency", w.latency,
          "Seconds that a message takes between a worker and a shard, each way; a formula of the worker's "
          "number i, as in --delays")
      ->type_name("SECONDS")
      ->group(group);
  parser
      .add_option("--bandwidth", w.bandwidth,
                  "Bytes a second that a link between a worker and a shard carries, each way; a formula, too")
      ->type_name("BYTES")
      ->group(group);
  add_wire_option(parser, w.remote);
  parser.get_option("--wire")->group(group);
  parser
      .add_flag("--no-feedback", w.loses_rest,
                "What a message in a lossy --wire lacks is lost, instead of kept for the next one")
      ->group(group);
}

} // namespace

train_words lab_words() {
  train_words w;
  w.delays = "exp";
  return w;
}

void add_lab_options(CLI::App& parser, train_words& w) {
  add_data_options(parser, w);
  const std::string group = "How to run it";
  parser.add_option("--workers", w.simulated, "How many workers are simulated, all on this thread")
      ->check(whole_number(1, most_simulated))
      ->required()
      ->group(group);
  parser
      .add_flag("--own-samples", w.own_samples,
                "Each worker trains on samples of its own: worker r of M on the samples r, r + M, and so on, "
                "so that workers have unlike data where the samples are sorted")
      ->group(group);
  add_delay_options(parser, w);
  parser
      .add_flag("--interrupt", w.interrupts,
                "A worker is interrupted by the update that makes its gradient too stale for the policy, and "
                "begins its next step")
      ->group(group);
  add_link_options(parser, w);
  add_policy_options(parser, w);
  add_optimizer_options(parser, w);
  add_local_step_options(parser, w);
  add_divergence_option(parser, w, "How to run it");
  add_result_options(parser, w);
  add_text_options(parser, w);
}

lab::virtual_run_options simulated_workers(const train_words& w) {
  lab::virtual_run_options lab{w.simulated};
  lab.own_samples = w.own_samples;
  lab.interrupts = w.interrupts;
  lab.links = {w.latency, w.bandwidth};
  lab.wire = {parse_wire_format(w.remote.wire), !w.loses_rest};
  if (w.loses_rest && !is_lossy(lab.wire.format))
    throw std::invalid_argument(
        "--no-feedback: nothing is lost without a lossy --wire; name one, or leave it out");
  return lab;
}

training_options lab_training(const train_words& w) {
  training_options o = understood(w);
  o.model_name = w.model;
  if (!w.load.empty()) o.start = std::make_shared<const saved_weights>(load_weights(w.load));
  o.start_whole = w.load_strict == "yes";
  return o;
}

} // namespace mailgrad
