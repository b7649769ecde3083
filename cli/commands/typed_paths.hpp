#pragma once

#include <mailgrad/cli/option_checks.hpp>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace mailgrad {

/// The options of a checkpoint, for a command that may be typed in another folder than they were.
struct words_from_there {
  option_words words;
  std::vector<std::string> options{}; ///< of these, the ones whose paths are taken from that folder: "--data"
};

/// The plug-ins in the value of an option that names rules. Loads none.
std::vector<std::string> plugins_in(std::string_view option, const std::string& value);
/// Those of all these options, each once.
std::vector<std::string> plugins_in(const std::vector<std::string>& words);

/// A relative path that leads to something here stays as it was typed. Any other is taken from the folder in
/// which it was typed: the data, the model, the plug-ins, the keys and a trace of delays, and the files that
/// the run is to write. What is no path, such as the name of a model that is built in, stays. An empty folder
/// is that of this command.
words_from_there found_from(option_words words, const std::filesystem::path& typed_in);

} // namespace mailgrad
