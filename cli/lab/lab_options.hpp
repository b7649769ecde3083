#pragma once

#include <mailgrad/cli/commands/train_words.hpp>

#include <mailgrad/lab/virtual_run.hpp>

namespace mailgrad {

/// The words of `mailgrad lab run` before any is given.
train_words lab_words();

/// Which workers these words simulate, with which links.
///
/// Errors  as parse_wire_format().
lab::virtual_run_options simulated_workers(const train_words& w);

} // namespace mailgrad
