#pragma once

#include <mailgrad/cli/commands/train_words.hpp>

#include <string>
#include <vector>

namespace mailgrad {

/// Trains in virtual time, and prints and writes what the words ask for. `given` are the words, for the
/// report. Returns an exit code.
int run_in_lab(const train_words& w, std::vector<std::string> given);

} // namespace mailgrad
