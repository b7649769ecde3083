#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace mailgrad {

// Checks of an option's value. Each says in one line what a right value is, so that the parser never refuses
// a value with its own text.

/// Accepts whole numbers from `least` to `most`.
CLI::Validator whole_number(std::uint64_t least,
                            std::uint64_t most = std::numeric_limits<std::uint64_t>::max());

/// Accepts finite numbers from `least` to `most`.
CLI::Validator number(double least = std::numeric_limits<double>::lowest(),
                      double most = std::numeric_limits<double>::max());

/// Accepts what parse_interval() reads.
CLI::Validator interval_text();

/// Accepts one of these words. Its name has them all, with | between them.
CLI::Validator one_of(std::vector<std::string> words);

/// Accepts any text but an empty one, which often comes from an unset variable of a script.
CLI::Validator file_name();

} // namespace mailgrad
