#pragma once

#include <mailgrad/actors/training.hpp>
#include <mailgrad/cli/interrupt.hpp>
#include <mailgrad/cli/output/failure_line.hpp>
#include <mailgrad/cli/output/progress_display.hpp>
#include <mailgrad/cli/output/run_outputs.hpp>
#include <mailgrad/cli/remote/served_run.hpp>
#include <mailgrad/data/dataset.hpp>
#include <mailgrad/engine/plan/training_options.hpp>
#include <mailgrad/engine/weights/model_card.hpp>
#include <mailgrad/graph/models/model.hpp>
#include <mailgrad/graph/parameter_layout.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
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

/// What is known of a run before anything is touched.
struct foreseen_run {
  std::shared_ptr<const parameter_layout> layout;
  bool is_done = false; ///< it is resumed, and no step is left to train
};

/// Errors  as plan_run().
foreseen_run foresee(const model_function& model, const std::shared_ptr<const data_split>& data,
                     const training_options& options);

/// What a run that is resumed does if its recording cannot go on.
enum class without_recording : std::uint8_t { fails, goes_on };

struct begun_run {
  std::unique_ptr<training> run;
  std::string without{}; ///< why it has no recording, if it goes on without one
};

/// Makes a run, perhaps without its recording, which is then taken out of the options. No actor of it lives
/// before its recording has begun. A run that workers have joined (`has_listened`) is not made once more.
///
/// Errors  those of `make`; recording_error if the run fails without its recording, or for what its workers
///         compute on.
begun_run begun(training_options& options, without_recording then,
                const std::function<std::unique_ptr<training>()>& make, const bool& has_listened);

/// Shows the progress of a run until it ends, and prints what it waits for when it stalls. Returns whether a
/// signal stopped it; a signal that arrives after the last check ends the test instead.
bool watch_run(training& run, progress_display& display, const interrupt& ctrl_c, served_run* served);

} // namespace mailgrad
