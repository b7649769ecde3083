#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace mailgrad {

/// The options of a parsed command as the user gave them, each as "--batch=32", except those named in
/// `without`. A recording keeps them, so that a replay has the same options.
std::vector<std::string> given_words(const CLI::App& command, const std::vector<std::string>& without);

} // namespace mailgrad
