#pragma once

#include <mailgrad/cli/commands/train_args.hpp>
#include <mailgrad/cli/output/progress_display.hpp>
#include <mailgrad/engine/account/time_source.hpp>
#include <mailgrad/engine/account/training_progress.hpp>
#include <mailgrad/lab/virtual_run.hpp>

#include <chrono>
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

namespace mailgrad {

/// Shows what is done of a run in virtual time, a few times in each second of this machine.
class lab_progress {
public:
  lab_progress(std::uint64_t steps, bool quiet)
      : display_(std::cerr, quiet ? progress_display::style::none : progress_display::suitable_style(),
                 steps) {}

  void show(training_progress p) {
    constexpr instant between = std::chrono::milliseconds{200};
    const instant now = time_.now();
    if (now - shown_ < between) return;
    shown_ = now;
    p.elapsed = now - begun_; // how long it still takes is a matter of this machine
    display_.show(p);
  }
  void finish() { display_.finish(); }
  double seconds() const { return in_seconds(time_.now() - begun_); }

private:
  machine_time time_;
  instant begun_ = time_.now();
  instant shown_{0};
  progress_display display_;
};

/// The words of `mailgrad lab run` before any is given.
train_args lab_args();

/// Which workers these words simulate, with which links.
///
/// Errors  as parse_wire_format().
lab::virtual_run_options simulated_workers(const train_args& w);

/// Trains in virtual time, and prints and writes what the words ask for. `given` are the words, for the
/// report. Returns an exit code.
int run_in_lab(const train_args& w, std::vector<std::string> given);

} // namespace mailgrad
