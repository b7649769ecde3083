#pragma once

#include <mailgrad/cli/commands/train_args.hpp>

namespace mailgrad {

/// The options given to a command, and those that were chosen for it, which describe its run: a recording
/// lacks those that name files to write, a checkpoint has them, since a run that is resumed still has to
/// write them. The ranks of `mailgrad launch` read their options themselves, so those of their processes are
/// none that describe the run.
std::vector<std::string> args_of_run(const CLI::App& parser, const train_args& w);

/// The same for workers in one process, since a recording is replayed so. `w` are the values of `words`.
std::vector<std::string> in_one_process(std::vector<std::string> words, const train_args& w);

/// A plug-in is code, and a checkpoint may come from anybody, so only those are loaded that somebody has
/// `named`, or an option that is given anew.
///
/// Errors  std::invalid_argument: the checkpoint names another, which is not loaded.
void require_named_plugins(const checkpoint& from, const option_args& given,
                           const std::vector<std::string>& named);

/// What a replay wrote, for --same-outputs of one that goes on from there. Its other options are those of the
/// recording.
std::vector<std::string> outputs_of_replay(const checkpoint& from, const option_args& given);

struct resumed_args {
  train_args values;
  std::vector<std::string> words; ///< for its next checkpoint
  /// For that as well: the options of a server that it has left, now or before. `mailgrad serve` takes them
  /// when the run comes back.
  std::vector<std::string> args_of_server;
};

/// The options of a checkpoint, and in their place those `given` now, whose values are `w`. The workers of
/// `mailgrad serve` join again, and those of --processes are started again, unless the command is another or
/// --processes says otherwise. Workers that come into another process leave behind what none can have there.
///
/// Errors  std::invalid_argument for an option that there is not.
resumed_args resumed_from(const checkpoint& from, const std::vector<std::string>& given, const train_args& w);

} // namespace mailgrad
