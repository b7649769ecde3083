#include <mailgrad/cli/commands/checkpoint_words.hpp>
#include <mailgrad/cli/commands/watched_run.hpp>
#include <mailgrad/cli/exit_code.hpp>
#include <mailgrad/cli/output/failure_line.hpp>
#include <mailgrad/cli/output/printable.hpp>
#include <mailgrad/cli/output/report_words.hpp>
#include <mailgrad/engine/account/checkpoint_account.hpp>
#include <mailgrad/engine/plan/run_plan.hpp>
#include <mailgrad/engine/record/recording.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <iostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace mailgrad {

namespace {

/// A run that ended early because its options or somebody asked for it has done its work. A signal decides
/// the exit code only if it ended the training or the test.
int exit_code_of(const training_report& r, int signal) {
  if (r.ended == "diverged") return exit_code::diverged;
  if (r.ended == "completed" && r.why.empty()) return exit_code::done;
  if (r.ended == "stopped" && (r.enough || signal == 0)) return exit_code::done;
  const bool ended_early = r.ended == "completed" || r.ended == "stopped";
  return ended_early && signal != 0 ? exit_code::of_signal(signal) : exit_code::failed;
}

/// The summary has said when a recording ended before the run did, and where its beginning lies.
std::string recording_failure(const training& run, const training_report& r) {
  std::string why = run.recording_failure();
  const bool told = r.recording && r.recording->failure != why && !r.recording->failure.empty();
  if (why.empty() || !told) return why;
  return fmt::format("recording '{}' is not whole: {}", r.recording->file, r.recording->failure);
}

} // namespace

training_report tested_report(training& run, std::size_t samples, const std::function<bool()>& ends_test) {
  return run.report([&ends_test, untold = samples]() mutable {
    if (ends_test()) return true;
    if (const std::size_t n = std::exchange(untold, 0); n > 0)
      std::cerr << "testing on " << n << " samples\n";
    return false;
  });
}

int say_how_it_ended(const training_report& r, const run_outputs& outputs, const std::string& command,
                     int signal, const memory_needs& needs) {
  const bool elsewhere = outputs.take_standard_output();
  (elsewhere ? std::cerr : std::cout)
      << fitted_to(elsewhere ? STDERR_FILENO : STDOUT_FILENO, printable(in_words(r, command)));
  const int code = exit_code_of(r, signal);
  if (!r.why.empty())
    code == exit_code::failed || code == exit_code::diverged ? say_failure(r.why)
                                                             : say_line("ended: " + r.why);
  if (const auto advice = memory_advice(r.why, needs); !advice.empty()) say_line(advice);
  return code;
}

void keep_results(const run_outputs& outputs, training& run, const training_report& report,
                  const model_card& card) {
  const run_trace trace = run.trace();
  for (const std::string& line : missing_in(trace)) say_line("trace: " + line);
  std::vector<std::string> failures = outputs.write(report, trace, run.weights(), card);
  for (const std::string& why : {recording_failure(run, report), run.metrics_failure()})
    if (!why.empty()) failures.push_back(why);
  if (failures.empty()) return;
  const std::string last = failures.back();
  if (report.ended != "diverged") failures.pop_back();
  for (const std::string& why : failures) say_failure(why);
  if (report.ended != "diverged") throw std::runtime_error(last);
}

foreseen_run foresee(const model_function& model, const std::shared_ptr<const data_split>& data,
                     const training_options& options) {
  const run_plan plan = plan_run(model, data, options);
  const checkpoint* const from = options.resume.get();
  return {plan.layout, from && steps_done(*from) >= plan.steps};
}

begun_run begun(training_options& options, without_recording then,
                const std::function<std::unique_ptr<training>()>& make, const bool& has_listened) {
  std::string without;
  try {
    return {make()};
  } catch (const recording_error& e) {
    if (!options.resume || options.record.empty()) throw;
    if (has_listened)
      throw recording_error(std::string(e.what()) + "; let workers join that compute on what is recorded");
    if (then == without_recording::fails)
      throw recording_error(std::string(e.what()) + "; leave --record out");
    without = std::string("this run goes on without a recording: ") + e.what();
  }
  options.record.clear();
  return {make(), std::move(without)};
}

namespace {

/// Waits a moment, or until somebody has come or gone. Returns whether the run has ended.
bool wait_a_moment(training& run, const served_run* served) {
  constexpr std::chrono::milliseconds moment{200}, part{20};
  if (!served) return run.wait_for(moment);
  for (auto waited = part; waited < moment && !served->has_news(); waited += part)
    if (run.wait_for(part)) return true;
  return false;
}

} // namespace

bool watch_run(training& run, progress_display& display, const interrupt& ctrl_c, served_run* served) {
  constexpr instant stall = std::chrono::seconds{10};
  const machine_time time;
  bool stopping = false;
  std::uint64_t failed_checkpoints = 0;
  bool records = true, has_room = true;
  std::uint64_t last_steps = 0;
  instant last_move = time.now();
  const auto tell_of_files = [&](const char* what_of_it) {
    const checkpoint_account kept = run.checkpoints();
    if (has_room && kept.removed_for_room > 0) {
      has_room = false;
      display.finish();
      std::cerr << "the disk is full: older checkpoints are removed to make room for newer ones\n";
    }
    if (kept.failed > failed_checkpoints) {
      failed_checkpoints = kept.failed;
      display.finish();
      say_line(fmt::format("checkpoint failed{}: {}", what_of_it, kept.failure));
    }
    const auto recorded = run.recorded();
    if (!records || !recorded || recorded->failure.empty()) return;
    records = false;
    display.finish();
    say_line(recording_in_words(*recorded) + what_of_it);
  };
  while (!wait_a_moment(run, served)) {
    const training_progress p = run.progress();
    display.show(p);
    if (served && served->has_news()) {
      display.finish();
      served->tell_news();
    }
    if (served) served->look_after_workers();
    tell_of_files(", training goes on");
    if (ctrl_c.requested() && !stopping) {
      stopping = true;
      display.finish();
      const std::string name = signal_name(ctrl_c.signal());
      std::cerr << "stopping by " << name
                << ": steps that have begun are finished; a second signal ends at once, without a report\n";
      run.stop("stopped by " + name);
    }
    if (p.steps != last_steps) {
      last_steps = p.steps;
      last_move = time.now();
    }
    if (time.now() - last_move < stall) continue;
    last_move = time.now();
    display.finish();
    for (const std::string& wait : run.name_waits(std::chrono::milliseconds{500})) say_line(wait);
  }
  display.show(run.progress());
  display.finish();
  tell_of_files("");
  return stopping;
}

} // namespace mailgrad
