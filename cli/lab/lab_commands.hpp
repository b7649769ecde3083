#pragma once

#include <mailgrad/cli/commands/train_args.hpp>
#include <mailgrad/cli/output/progress_display.hpp>
#include <mailgrad/cli/program.hpp>
#include <mailgrad/cli/report/gnuplot.hpp>
#include <mailgrad/engine/account/time_source.hpp>
#include <mailgrad/lab/experiment.hpp>
#include <mailgrad/lab/virtual_run.hpp>

namespace mailgrad {

/// Shows what is done of a run in virtual time, a few times in each second of this machine.
class lab_progress {
public:
  lab_progress(std::uint64_t steps, bool quiet) : display_(quiet, steps) {}

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
lab::virtual_run_options simulated_workers(const train_args& w);

/// How gnuplot draws a figure. `command` makes it again, and ends the caption.
picture picture_of(const lab::figure& f, const std::string& command);

/// Writes a file of results, a whole one or none.
///
/// Errors  std::system_error, std::runtime_error: it cannot be written.
void write_result(const std::filesystem::path& file, const std::string& content);

/// Draws each picture that can be drawn into PREFIX and its name, as .svg and .png.
void write_drawn(const std::filesystem::path& folder, const std::string& prefix,
                 std::span<const picture> pictures);

/// Calls a function that draws and writes pictures. If it cannot draw, the results stay as they are, and a
/// line says why.
void write_if_drawn(const std::function<void()>& draw_all);

// Subcommands of `mailgrad lab`. What a signal leaves unfinished is left out.

command make_lab_run(CLI::App& parent);
/// Runs the cells of a sweep that have no row yet, and writes tables, pictures and a page of all.
command make_lab_sweep(CLI::App& parent);
/// Repeats a recorded run, trains it once more under other conditions in virtual time, and prints both side
/// by side.
command make_lab_what_if(CLI::App& parent);
int list_experiments();

/// The subcommand that runs an experiment, prints its claims, and writes what the words ask for.
command make_lab_experiment(CLI::App& parent, const lab::experiment& e);

} // namespace mailgrad
