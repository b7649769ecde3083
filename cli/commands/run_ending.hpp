#pragma once

#include <mailgrad/actors/training.hpp>
#include <mailgrad/cli/output/memory_advice.hpp>
#include <mailgrad/cli/output/run_outputs.hpp>
#include <mailgrad/engine/weights/model_card.hpp>

#include <cstddef>
#include <functional>
#include <string>

namespace mailgrad {

/// The report of a run that has ended. Says that the weights are tested on so many samples when that begins,
/// since a run that has diverged or lost a shard has none to test; 0: says nothing.
training_report tested_report(training& run, std::size_t samples, const std::function<bool()>& ends_test);

/// Prints the summary of a run, and why it ended if it was not completed. `command` is the one by which it
/// goes on from a checkpoint; `signal` is the one that ended the training or the test, or 0; `needs` of it
/// decide what to do about a lack of memory. Returns the exit code.
int say_how_it_ended(const training_report& r, const run_outputs& outputs, const std::string& command,
                     int signal, const memory_needs& needs);

/// Writes what the run leaves behind, and names everything of it that is missing.
///
/// Errors  std::runtime_error with the last failure, when those before it have been printed; of a run that
///         has diverged that one is printed as well, since its exit code says more.
void keep_results(const run_outputs& outputs, training& run, const training_report& report,
                  const model_card& card);

} // namespace mailgrad
