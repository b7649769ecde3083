#pragma once

#include <mailgrad/cli/lab/what_if_words.hpp>

namespace mailgrad {

/// Repeats a recorded run, trains it once more under other conditions in virtual time, and prints both side
/// by side. Returns an exit code.
int run_what_if(const what_if_words& w);

} // namespace mailgrad
