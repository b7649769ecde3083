#include <mailgrad/cli/commands/train_words.hpp>

#include <mailgrad/cli/option_checks.hpp>

#include <string>

// The options of `mailgrad train` that say what it writes: files at the end, lines during the run, and text.

namespace mailgrad {

void add_result_options(CLI::App& parser, train_words& w) {
  output_paths& paths = w.outputs;
  parser
      .add_option(
          "--report", paths.report,
          "Write a report of the run to this file, as one JSON object; -: to standard output, with the "
          "summary on standard error; the same holds for the next two options")
      ->check(file_name())
      ->type_name("FILE")
      ->group("Output");
  parser
      .add_option("--save", paths.save,
                  "Write the trained weights to this safetensors file, or to one of numpy if it ends in "
                  ".npz, with what "
                  "is needed to use the model")
      ->check(file_name())
      ->type_name("FILE")
      ->group("Output");
  add_observing_options(parser, w, "Output");
}

void add_observing_options(CLI::App& parser, train_words& w, const std::string& group) {
  parser
      .add_option("--staleness-csv", w.outputs.staleness_csv,
                  "Write how often each gap of staleness occurred, a line for each shard, worker and gap")
      ->check(file_name())
      ->type_name("FILE")
      ->group(group);
  parser
      .add_option("--trace", w.outputs.trace,
                  "Write what each actor did and waited for, as a timeline for ui.perfetto.dev; at most the "
                  "first " +
                      std::to_string(traced_events) + " events of each actor")
      ->check(file_name())
      ->type_name("FILE")
      ->group(group);
  parser
      .add_option("--sample-gap", w.sample_gap,
                  "Compare one in N gradients of a worker with a fresh gradient of its batch: how far the "
                  "weights had moved, and the cosine of both gradients. Each comparison costs a step. 0: "
                  "never; not for hogwild")
      ->check(whole_number(0))
      ->capture_default_str()
      ->group(group);
}

void add_record(CLI::App& parser, train_words& w) {
  parser
      .add_option("--record", w.outputs.record,
                  "Write the order of all gradients to this file, for 'mailgrad replay'; not for hogwild")
      ->check(file_name())
      ->type_name("FILE")
      ->group("Output");
}

void add_text_options(CLI::App& parser, train_words& w) {
  parser
      .add_option("--sample-length", w.sample_length,
                  "For text: how many symbols the trained model writes at the end; 0: none")
      ->check(whole_number(0))
      ->capture_default_str()
      ->group("Output");
  parser
      .add_option("--temperature", w.temperature,
                  "For text: 1 draws each symbol by the model's probabilities, a lower value prefers likely "
                  "symbols, and 0 always takes the likeliest")
      ->check(number(0, 1000))
      ->capture_default_str()
      ->group("Output");
  parser.add_flag("--quiet", w.quiet, "Show no progress, only the summary and what goes wrong")
      ->disable_flag_override()
      ->group("Output");
}

void add_metrics_options(CLI::App& parser, train_words& w, const std::string& group) {
  parser
      .add_option(
          "--metrics", w.outputs.metrics,
          "Write what is measured during the run to this file, a line at a time: JSON lines, or CSV if its "
          "name ends in .csv; an older file is kept as FILE.old")
      ->check(file_name())
      ->type_name("FILE")
      ->group(group);
  parser
      .add_option("--tensorboard", w.outputs.tensorboard,
                  "Write the same figures and the staleness of all gradients as an event file into this "
                  "folder, which TensorBoard shows during the run")
      ->check(file_name())
      ->type_name("DIR")
      ->group(group);
  parser
      .add_option("--metrics-every", w.metrics_every,
                  "How often such lines and events are made, also for the curve in the report: a time as "
                  "500ms, 1s or 10min, "
                  "a number of steps of all workers together, or epoch")
      ->check(interval_text())
      ->capture_default_str()
      ->type_name("N|TIME|epoch")
      ->group(group);
}

} // namespace mailgrad
