#include <mailgrad/cli/lab/lab_what_if.hpp>

#include <mailgrad/cli/commands/train_words.hpp>
#include <mailgrad/cli/exit_code.hpp>
#include <mailgrad/cli/interrupt.hpp>
#include <mailgrad/cli/lab/lab_progress.hpp>
#include <mailgrad/cli/output/failure_line.hpp>
#include <mailgrad/cli/output/output_file.hpp>
#include <mailgrad/cli/output/progress_display.hpp>
#include <mailgrad/cli/run_inputs.hpp>
#include <mailgrad/cli/spanning_option.hpp>
#include <mailgrad/cli/version.hpp>

#include <mailgrad/actors/training.hpp>
#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/engine/weights/weights_file.hpp>
#include <mailgrad/graph/models/model.hpp>

#include <fmt/format.h>

#include <chrono>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <utility>

namespace mailgrad {

namespace {

/// The words of the recorded run, without the files that it wrote.
train_words words_of(const what_if_words& w, const recording& order) {
  if (order.header.words.empty())
    throw recording_error(fmt::format("recording '{}' was made by a program, which alone knows its model; "
                                      "there, take lab::retimed_run",
                                      order.name));
  train_words was = recorded_values(order);
  was.outputs = {};
  was.checkpoints = {};
  was.live = {};
  was.sample_gap = 0;
  if (!w.data.empty()) was.data = w.data;
  return was;
}

training_options training_of(const train_words& was) {
  training_options o = understood(was);
  o.model_name = was.model;
  if (!was.load.empty()) o.start = std::make_shared<const saved_weights>(load_weights(was.load));
  o.start_whole = was.load_strict == "yes";
  return o;
}

progress_display::style style_of(const what_if_words& w) {
  return w.quiet ? progress_display::style::none : progress_display::suitable_style();
}

/// The recorded run once more, to its end or until a signal comes.
training_report repeated(training& run, const what_if_words& w, const interrupt& ctrl_c) {
  progress_display display(std::cerr, style_of(w), run.total_steps());
  bool stopping = false;
  while (!run.wait_for(std::chrono::milliseconds{200})) {
    display.show(run.progress());
    if (ctrl_c.requested() && !std::exchange(stopping, true))
      run.stop("stopped by " + signal_name(ctrl_c.signal()));
  }
  display.show(run.progress());
  display.finish();
  return run.report([&] { return ctrl_c.requested(); });
}

bool has_ended_well(const training_report& r) { return r.ended == "completed" && r.why.empty(); }

/// Says why a run did not come to its end, and returns the exit code for it.
int end_without(const training_report& r, const interrupt& ctrl_c) {
  say_failure(r.why);
  if (r.ended == "diverged") return exit_code::diverged;
  return ctrl_c.requested() ? exit_code::of_signal(ctrl_c.signal()) : exit_code::failed;
}

} // namespace

int run_what_if(const what_if_words& w) {
  const std::string date = utc_date(std::chrono::system_clock::now());
  const lab::what_if changed = understood(w);
  const auto order = std::make_shared<const recording>(read_recording(w.recording));
  require_repeatable(*order);
  const train_words was = words_of(w, *order);
  const run_inputs inputs{was.model,   was.data, was.policy, was.cure, {was.optimizer, was.outer_optimizer},
                          order.get(), was.load};
  announce_plugins(inputs);
  training_options options = training_of(was);
  const lab::retimed_run retimed(options, *order, changed);
  output_paths paths;
  paths.report = w.report;
  const run_outputs outputs(paths, files_of(inputs));
  const output_file durations("durations", w.durations);
  for (const std::string& taken : {w.recording, w.report})
    if (!w.durations.empty() && durations.same_file(output_file("", taken)))
      throw std::invalid_argument(
          fmt::format("--durations: '{}' is another file of this command; name one of its own", w.durations));
  const auto data = std::make_shared<const data_split>(open_data(was.data, opened_as(was)));
  const interrupt ctrl_c;

  std::optional<lab_progress> shown;
  lab::virtual_run_options virtual_options{retimed.workers()};
  virtual_options.delays = retimed.delays();
  virtual_options.computes_discarded = true; // so that its losses can be compared
  virtual_options.stop = [&] { return ctrl_c.requested(); };
  virtual_options.on_progress = [&](const training_progress& p) {
    if (shown) shown->show(p);
  };
  lab::virtual_run other(find_model(was.model), data, retimed.options(), virtual_options);

  options.replay = order;
  training run(spanning(find_model(was.model), was.span), data, options);
  if (!w.quiet) std::cerr << fmt::format("repeating the run: {} mini-batches\n", run.total_steps());
  training_report of_run = repeated(run, w, ctrl_c);
  if (!has_ended_well(of_run)) return end_without(of_run, ctrl_c);
  if (!w.quiet) std::cerr << fmt::format("in virtual time: {}\n", retimed.options().policy);
  shown.emplace(other.total_steps(), w.quiet);
  other.run();
  shown->finish();
  training_report of_other = other.report([&] { return ctrl_c.requested(); });
  of_other.origin.commit = build_commit;
  of_other.origin.date = date;
  (outputs.take_standard_output() ? std::cerr : std::cout)
      << side_by_side({"the run", lab::figures_of(retimed.recorded()), std::move(of_run)},
                      {"what if", lab::figures_of(of_other), of_other})
      << assumptions(retimed, changed, order->header.workers);
  durations.write([&](std::ostream& out) { out << lab::trace_csv(retimed.recorded()); });
  const std::vector<std::string> failures = outputs.write(of_other, {}, {}, {});
  if (!failures.empty()) throw std::runtime_error(failures.front());
  return has_ended_well(of_other) ? exit_code::done : end_without(of_other, ctrl_c);
}

} // namespace mailgrad
