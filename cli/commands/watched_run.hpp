#pragma once

#include <mailgrad/actors/training.hpp>
#include <mailgrad/cli/interrupt.hpp>
#include <mailgrad/cli/output/progress_display.hpp>
#include <mailgrad/cli/remote/served_run.hpp>

namespace mailgrad {

/// Shows the progress of a run until it ends, and prints what it waits for when it stalls. Returns whether a
/// signal stopped it; a signal that arrives after the last check ends the test instead.
bool watch_run(training& run, progress_display& display, const interrupt& ctrl_c, served_run* served);

} // namespace mailgrad
