#include <mailgrad/cli/lab/lab_options.hpp>

#include <mailgrad/cli/option_checks.hpp>

#include <mailgrad/engine/weights/weights_file.hpp>

#include <cstdint>
#include <memory>
#include <string>

namespace mailgrad {

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
  add_policy_options(parser, w);
  add_optimizer_options(parser, w);
  add_local_step_options(parser, w);
  add_result_options(parser, w);
  add_text_options(parser, w);
}

training_options lab_training(const train_words& w) {
  training_options o = understood(w);
  o.model_name = w.model;
  if (!w.load.empty()) o.start = std::make_shared<const saved_weights>(load_weights(w.load));
  o.start_whole = w.load_strict == "yes";
  return o;
}

} // namespace mailgrad
