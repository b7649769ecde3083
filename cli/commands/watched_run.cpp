#include <mailgrad/cli/commands/watched_run.hpp>
#include <mailgrad/cli/output/failure_line.hpp>

#include <mailgrad/engine/account/recording_account.hpp>

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <iostream>
#include <string>

namespace mailgrad {

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
