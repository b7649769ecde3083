#pragma once

#include <mailgrad/cli/commands/train_args.hpp>
#include <mailgrad/engine/checkpoint/kept_run.hpp>

namespace mailgrad {

/// The plug-ins in all these options, each once. Loads none.
std::vector<std::string> plugins_in(const std::vector<std::string>& words);

/// The checkpoint that --resume names.
struct chosen_checkpoint {
  std::shared_ptr<const checkpoint> from{}; ///< null: the option is not given
  bool newest = false;                      ///< of a folder; else that file was named
  std::string in_words{};                   ///< which one that is, and why newer ones could not be read
};

/// Errors  file_error: there is none.
chosen_checkpoint checkpoint_to_resume(const checkpoint_args& w);

/// What the checkpoint says of its run.
/// Errors  archive_error if it lacks that, as all functions below that read a checkpoint.
checkpoint_card card_of(const checkpoint& from);
/// The steps that were done, and the policies from then on, as --policy has them: "sync, ssp:1@2000".
inline std::uint64_t steps_done(const checkpoint& from) { return card_of(from).steps; }
std::string policies_from(const checkpoint& from);

/// The options by which a run that goes on from `from` keeps its checkpoints: in the same folder, wherever
/// that lies now, as often as before, and as many.
std::vector<std::string> args_of_keeping(const checkpoint& from);

/// "; the paths of --data, --save are those of /srv/first": of the options of a checkpoint, these name
/// paths that lead to nothing from here, and that are not given now. Empty if there are none.
std::string format_paths(const checkpoint& from, const option_args& given, const checkpoint_args& w);
/// "; without --report=run.json, which --same-outputs would write": whoever made the checkpoint does not say
/// where this process writes. Empty if nothing is left out.
std::string format_left_out(const checkpoint& from, const option_args& given, const checkpoint_args& w);

/// The options of a run that is resumed: those of the checkpoint, but for the ones that were given now, and
/// for those that name outputs unless `w` takes them. Unless these say otherwise, its checkpoints go into the
/// folder of the one it goes on from.
option_args args_to_resume(const checkpoint& from, const option_args& given, const checkpoint_args& w);

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
