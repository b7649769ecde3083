#include <mailgrad/cli/commands.hpp>
#include <mailgrad/cli/exit_code.hpp>
#include <mailgrad/cli/interrupt.hpp>
#include <mailgrad/cli/progress_display.hpp>
#include <mailgrad/cli/recorded_words.hpp>
#include <mailgrad/cli/run_inputs.hpp>
#include <mailgrad/cli/train_help.hpp>
#include <mailgrad/cli/train_words.hpp>

#include <mailgrad/graph/models/model.hpp>

#include <iostream>
#include <memory>

namespace mailgrad {

namespace {

/// Follows a run to its end, and says what it waits for when nothing moves.
void watch_run(training& run, progress_display& display, const interrupt& ctrl_c) {
  constexpr instant stall = std::chrono::seconds{10};
  const machine_time time;
  bool stopping = false;
  std::uint64_t last_steps = 0;
  instant last_move = time.now();
  while (!run.wait_for(std::chrono::milliseconds{200})) {
    const training_progress p = run.progress();
    display.show(p);
    if (ctrl_c.requested() && !stopping) {
      stopping = true;
      display.finish();
      std::cerr
          << "stopping: steps that have begun are finished; a second Ctrl-C ends at once, without a report\n";
      run.stop("interrupted by a signal");
    }
    if (p.steps != last_steps) {
      last_steps = p.steps;
      last_move = time.now();
    }
    if (time.now() - last_move < stall) continue;
    last_move = time.now();
    display.finish();
    for (const std::string& wait : run.name_waits(std::chrono::milliseconds{500})) std::cerr << wait << '\n';
  }
  display.show(run.progress());
  display.finish();
}

int exit_code_of(const training_report& r) {
  if (r.ended == "completed") return r.why.empty() ? exit_code::done : exit_code::interrupted;
  return r.ended == "stopped" ? exit_code::interrupted : exit_code::failed;
}

/// `given` are the words that a recording keeps.
training_report train_with(const train_words& w, std::vector<std::string> given,
                           std::shared_ptr<const recording> replay) {
  const run_inputs inputs{w.model, w.data, {w.optimizer, w.outer_optimizer}, replay.get()};
  announce_plugins(inputs);
  training_options options = understood(w);
  options.record = w.outputs.record;
  options.words = std::move(given);
  options.replay = std::move(replay);
  const model_function model = spanning(find_model(w.model), w.span);
  const run_outputs outputs(w.outputs, files_of(inputs));
  const auto data = std::make_shared<const data_split>(open_data(w.data, opened_as(w)));

  const interrupt ctrl_c; // to the end: whoever asks once gets the report, whatever is being done
  training run(model, data, options);
  const auto style = w.quiet ? progress_display::style::none : progress_display::suitable_style();
  if (!w.quiet) std::cerr << introduction(w.model, w.span, options, *data, run) << '\n';
  progress_display display(std::cerr, style, run.total_steps());
  watch_run(run, display, ctrl_c);
  const bool stopped = ctrl_c.requested(); // then the weights so far are tested
  if (!w.quiet && data->test.size() > 0) std::cerr << "testing on " << data->test.size() << " samples\n";
  training_report report = run.report([&] { return !stopped && ctrl_c.requested(); });
  report.model = w.model;
  report.span = w.span.name();
  std::cout << in_words(report);
  if (!report.why.empty()) std::cerr << "mailgrad: " << report.why << '\n';
  const run_trace trace = run.trace();
  for (const std::string& line : missing_in(trace)) std::cerr << "trace: " << line << '\n';
  outputs.write(report, trace);
  if (const std::string why = run.recording_failure(); !why.empty()) throw std::runtime_error(why);
  return report;
}

} // namespace

training_report train_again(const std::vector<std::string>& words, std::shared_ptr<const recording> what) {
  CLI::App parser;
  train_words w;
  add_options(parser, w);
  try {
    parser.parse(std::vector<std::string>(words.rbegin(), words.rend())); // the last one first
  } catch (const CLI::ParseError& e) {
    throw recording_error("recording '" + what->name + "': " + e.what());
  }
  return train_with(w, words, std::move(what));
}

command make_train_command(CLI::App& app) {
  CLI::App* parser =
      app.add_subcommand("train", "Train a model on one or more devices, and report what it cost");
  auto words = std::make_shared<train_words>();
  add_options(*parser, *words);
  parser->footer(
      models() + policies_and_cures() + '\n' + default_learning_rates() + '\n' + model_file_format() +
      "\nA switch by step comes when so many mini-batches are dealt: each worker may by then have one\n"
      "still to train, which it trains after the switch. The report says how many were trained before.\n"
      "\nCtrl-C ends the run in good order: steps that have begun are finished, the weights so far are\n"
      "tested, the report is written. During the test it ends that, and the report has no accuracy. A\n"
      "second one ends the run at once.\n"
      "\nExample:\n"
      "  mailgrad train --model lenet --devices cpu:0,cpu:1 --policy sync --optimizer adam --lr 0.001 "
      "--epochs 2");
  return {
      parser, [parser, words] {
        return exit_code_of(train_with(
            *words, given_words(*parser, {"report", "staleness-csv", "trace", "record", "quiet"}), nullptr));
      }};
}

} // namespace mailgrad