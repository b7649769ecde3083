#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace mailgrad {

/// The options that were given to a parsed command, "--batch=32" each, but for those named in `without`: a
/// recording keeps them, so that a replay is told the same.
std::vector<std::string> given_words(const CLI::App& command, const std::vector<std::string>& without);

/// `words`, with `value` in the place of what `option` was given.
std::vector<std::string> with_word(std::vector<std::string> words, const std::string& option,
                                   const std::string& value);

} // namespace mailgrad
