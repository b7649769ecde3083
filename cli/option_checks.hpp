#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace mailgrad {

// Checks of an option's value. Each says in one line what is right, so that nothing is left for the parser to
// refuse in words of its own.

/// Takes whole numbers from `least` to `most`.
CLI::Validator whole_number(std::uint64_t least,
                            std::uint64_t most = std::numeric_limits<std::uint64_t>::max());

/// Takes finite numbers from `least` to `most`.
CLI::Validator number(double least = std::numeric_limits<double>::lowest(),
                      double most = std::numeric_limits<double>::max());

/// Takes one of these words.
CLI::Validator one_of(std::vector<std::string> words);

/// Takes any text but an empty one, which comes from a script whose variable is not set.
CLI::Validator file_name();

} // namespace mailgrad
