#pragma once

#include <mailgrad/cli/commands/train_words.hpp>

#include <CLI/CLI.hpp>

#include <cstdint>

namespace mailgrad {

/// Workers of a run in virtual time.
inline constexpr std::uint64_t most_simulated = 1'000'000;

/// The words of `mailgrad lab run` before any is given.
train_words lab_words();

/// The options of `mailgrad lab run`.
void add_lab_options(CLI::App& parser, train_words& w);

/// What these words mean, with the weights that --load names.
///
/// Errors  as understood() and load_weights().
training_options lab_training(const train_words& w);

} // namespace mailgrad
