#pragma once

#include <mailgrad/engine/account/training_report.hpp>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace mailgrad {

/// The commit that the tool was built from: "1a2b3c4d5e6f", followed by "-dirty" if files had changed since.
/// It is "unknown" if the sources are no working tree of git. Each build determines it anew
/// (cmake/mailgrad_commit.cmake).
extern const char build_commit[];

/// "2026-11-22T20:41:28Z"
std::string utc_date(std::chrono::system_clock::time_point when);

struct checkpoint_args;
struct recording;
struct train_args;

/// A subcommand: the parser of its options, and the function to call after parsing, which returns an exit
/// code.
struct command {
  CLI::App* parser;
  std::function<int()> run;
};

using make_command = command(CLI::App& app);
make_command make_train_command, make_serve_command, make_launch_command, make_join_command,
    make_shard_command, make_status_command, make_switch_command, make_stop_command, make_replay_command,
    make_test_command, make_predict_command, make_generate_command, make_export_command, make_report_command,
    make_devices_command, make_graph_command, make_keys_command, make_lab_command, make_completion_command;

/// Where the program of the lab lies: beside this one.
std::filesystem::path program_of_lab();
/// Becomes that program, with these words. Does not return.
///
/// Errors  std::runtime_error: it cannot be run.
int become_lab(std::vector<std::string> words);

/// The report of a run that ended, and the exit code with which `mailgrad train` would end.
struct finished_run {
  training_report report;
  int code;
};

/// The exit code of a run. One that ended early because its options or somebody asked for it has done its
/// work. A signal decides only if it ended the training or the test; 0: there was none.
int exit_code_of(const training_report& r, int signal);

/// Trains as the words say, which `parser` has read, and prints and writes what they ask for. Returns an exit
/// code.
int train_as_told(const CLI::App& parser, const train_args& w);

/// Trains as `mailgrad train` with the options `words` would, in the order of a recording. `w` says where a
/// replay goes on.
///
/// Errors  recording_error for an option that train does not have, std::invalid_argument for a plug-in that
///         the checkpoint names, and neither the recording nor `w`; and as the class training.
finished_run train_again(std::vector<std::string> words, std::shared_ptr<const recording> what,
                         const checkpoint_args& w);

using command_maker = make_command*;

/// The commands of the tool. `lab` makes that of the lab, whose options only its own program knows.
std::vector<command_maker> commands_of_tool(command_maker lab);

/// Runs a program of the tool: makes its commands, and does what `words` say, of which the first is the name
/// of the program. Prints what went wrong, and returns an exit code. To be called once, by main().
int run_program(std::span<const command_maker> makers, std::vector<const char*> words);

} // namespace mailgrad
