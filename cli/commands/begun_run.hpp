#pragma once

#include <mailgrad/actors/training.hpp>
#include <mailgrad/data/dataset.hpp>
#include <mailgrad/engine/plan/training_options.hpp>
#include <mailgrad/graph/models/model.hpp>
#include <mailgrad/graph/parameter_layout.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace mailgrad {

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

} // namespace mailgrad
