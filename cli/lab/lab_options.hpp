#pragma once

#include <mailgrad/cli/commands/train_words.hpp>

#include <mailgrad/lab/virtual_run.hpp>

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

/// Which workers these words simulate, with which links.
///
/// Errors  as parse_wire_format().
lab::virtual_run_options simulated_workers(const train_words& w);

} // namespace mailgrad
