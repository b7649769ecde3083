#include <mailgrad/cli/commands/run_ending.hpp>

#include <mailgrad/cli/exit_code.hpp>
#include <mailgrad/cli/output/failure_line.hpp>
#include <mailgrad/cli/output/fitted_lines.hpp>
#include <mailgrad/cli/output/printable.hpp>
#include <mailgrad/cli/output/report_words.hpp>

#include <fmt/format.h>

#include <unistd.h>

#include <iostream>
#include <stdexcept>
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

} // namespace mailgrad
