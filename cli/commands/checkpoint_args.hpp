#pragma once

#include <mailgrad/cli/option_table.hpp>
#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>
#include <mailgrad/engine/checkpoint/kept_run.hpp>
#include <mailgrad/engine/plan/training_options.hpp>

#include <filesystem>

namespace mailgrad {

/// The options of a checkpoint, for a command that may be typed in another folder than they were.
struct args_from_there {
  option_args words;
  std::vector<std::string> options{}; ///< of these, the ones whose paths are taken from that folder: "--data"
};

/// The plug-ins in the value of an option that names rules. Loads none.
std::vector<std::string> plugins_in(std::string_view option, const std::string& value);
/// Those of all these options, each once.
std::vector<std::string> plugins_in(const std::vector<std::string>& words);

/// A relative path that leads to something here stays as it was typed. Any other is taken from the folder in
/// which it was typed. What is no path, such as the name of a built-in model, stays. An empty folder is that
/// of this command.
args_from_there found_from(option_args words, const std::filesystem::path& typed_in);

/// The values of the options about checkpoints, before they are interpreted.
struct checkpoint_args {
  std::string folder;
  std::string every = "10min";
  std::size_t keep = 3;
  std::string resume;
  bool same_outputs = false;          ///< writes what the run wrote that is resumed
  std::vector<std::string> plugins{}; ///< which that run may have loaded
};

/// Errors  std::invalid_argument in one line: no interval.
checkpoint_options understood(const checkpoint_args& w);

/// The checkpoint that --resume names.
struct chosen_checkpoint {
  std::shared_ptr<const checkpoint> from{}; ///< null: the option is not given
  bool newest = false;                      ///< of a folder; else that file was named
  std::string in_words{};                   ///< which one that is, and why newer ones could not be read
};

/// Errors  file_error: there is none.
chosen_checkpoint checkpoint_to_resume(const checkpoint_args& w);

/// What the checkpoint says of its run. This and all below throw archive_error if it lacks that.
checkpoint_card card_of(const checkpoint& from);
/// The steps that were done, and the policies from then on, as --policy has them: "sync, ssp:1@2000".
inline std::uint64_t steps_done(const checkpoint& from) { return card_of(from).steps; }
std::string policies_from(const checkpoint& from);

/// The options in a checkpoint, with their paths as they lead to something from here.
args_from_there words_in(const checkpoint& from);
/// The same of `words` that are kept in the checkpoint beside them.
args_from_there found_from(const checkpoint& from, std::vector<std::string> words);

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

} // namespace mailgrad
