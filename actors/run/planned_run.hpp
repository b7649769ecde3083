#pragma once

#include <mailgrad/engine/plan/run_plan.hpp>

namespace mailgrad {

/// The plan of a run on the processors of this machine or of others, or of the replay that the options name.
/// A run that goes on in the folder of its checkpoint locks that before it reads what another run may
/// replace.
/// Errors  those of plan_run(), plan_replay() and plan_resume(); device_error: a device is not here;
///         folder_taken.
run_plan plan_on_threads(model_function model, std::shared_ptr<const data_split> data,
                         training_options options, bool workers_are_here,
                         std::shared_ptr<const folder_lock>& lock);

/// Devices for workers of other processes, which bring their own. Those here say how many threads the server
/// has: as many as if the workers were here, so that each that waits leaves its processor to an update. A
/// worker has no device twice, also if it has more than this machine has processors.
/// Errors  std::invalid_argument: none, or too many; or the options prescribe how long their steps take.
training_options for_workers_elsewhere(training_options options, std::uint32_t workers,
                                       std::uint32_t devices);

/// Where the parts of a run are, which decides to which policies somebody may switch it.
enum class run_place : std::uint8_t {
  one_process,
  workers_elsewhere,
  shards_elsewhere ///< and workers, too
};

/// Refuses a policy that somebody asks a run in progress to switch to, if the run cannot. `has_block`:
/// workers have a block that they could share under hogwild.
/// Errors  std::invalid_argument in one line; those of require_switch().
void require_asked_switch(const run_plan& plan, run_place place, bool has_block, const std::string& policy);

} // namespace mailgrad
