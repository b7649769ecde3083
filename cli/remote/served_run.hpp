#pragma once

#include <mailgrad/actors/training.hpp>
#include <mailgrad/cli/exit_code.hpp>
#include <mailgrad/cli/output/failure_line.hpp>
#include <mailgrad/cli/remote/remote_args.hpp>

#include <atomic>

namespace mailgrad {

/// The tool's part of a run whose workers are other processes: says who comes and goes, answers who asks for
/// the status, and starts workers of this machine if it shall.
///
/// Threads the owner's; what options() hands out is called on others.
class served_run {
public:
  /// `quiet`: says of nobody who comes or goes, but still of those who are lost or refused. `local` says how
  /// workers that it starts join. `add` adds to a report what only the tool knows; any
  /// thread may call it.
  served_run(const remote_args& w, worker_args local, bool quiet, const interrupt& ctrl_c,
             std::function<void(training_report&)> add);

  /// For so many workers of so many devices each.
  remote::serve_options options(std::uint32_t workers, std::uint32_t devices);
  /// The run has begun, and may be asked. It must outlive end().
  void begin(training& run) { run_ = &run; }
  /// Whether a run that a signal has stopped is still tested: not if its launcher kills it soon, before the
  /// report would be written.
  bool has_time_to_test() const;
  void end();

  /// To be called now and then: if all workers that it has started have ended, the run waits for no other.
  void look_after_workers();
  /// Whether somebody has come, gone, or was refused.
  bool has_news() const { return news_.any(); }
  void tell_news();

private:
  void say_where(const std::string& address, std::uint32_t workers, std::uint32_t devices) const;
  bool go_on_waiting(std::uint32_t joined, std::uint32_t workers);
  std::string status() const;

  const remote_args words_;
  const worker_args of_local_;
  const bool quiet_;
  const interrupt& ctrl_c_;
  const std::function<void(training_report&)> add_;
  std::atomic<training*> run_{nullptr};
  lines_to_say news_;
  std::chrono::steady_clock::time_point began_waiting_{};
  local_workers local_;
};

} // namespace mailgrad
