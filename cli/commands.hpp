#pragma once

#include <mailgrad/engine/account/training_report.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace mailgrad {

struct recording;

/// A subcommand: its options, and what it does once they are parsed. `run` returns an exit code.
struct command {
  CLI::App* parser;
  std::function<int()> run;
};

command make_train_command(CLI::App& app);
command make_replay_command(CLI::App& app);
command make_devices_command(CLI::App& app);
command make_graph_command(CLI::App& app);

/// A run that reached its report, and the exit code of a `mailgrad train` that did this.
struct finished_run {
  training_report report;
  int code;
};

/// Trains as `mailgrad train` would with `words`, in the order of a recording.
///
/// Errors  recording_error for a word that train does not take, and as the class training.
finished_run train_again(const std::vector<std::string>& words, std::shared_ptr<const recording> what);

} // namespace mailgrad
