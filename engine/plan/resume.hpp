#pragma once

#include <mailgrad/engine/plan/run_plan.hpp>

namespace mailgrad {

/// What the run of a checkpoint had recorded before that, for one that goes on and records into `path`. It is
/// looked for where that run recorded, and at `path`, under all names that a killed run leaves.
/// Errors  recording_error in one line: it was not recorded, a worker was lost, or no file has all.
std::shared_ptr<const recording> recorded_before(const checkpoint& from, const std::string& path);

/// Names the plug-ins of a checkpoint by the paths of this run, whose facts are `here`: it may go on in
/// another folder than it began in. Two paths are taken for one plug-in if their last parts are the same; of
/// several such, those with the same SHA-256. Each is taken once. All SHA-256 are compared afterwards.
void name_plugins_as_here(const run_facts& here, checkpoint_card& card, kept_schedule& schedule);

/// Requires a run whose state can be kept, if its options ask for checkpoints.
/// Errors  std::invalid_argument: a parameter actor, policy or cure of the user's that cannot be kept.
void require_keepable(const run_plan& plan);

checkpoint_card card_of(const run_plan& plan);

/// Locks the folder of the run's checkpoints and makes it, if it is not there.
/// Errors  as prepare_checkpoint_folder() and require_newest() have them.
std::shared_ptr<const folder_lock> take_checkpoint_folder(const training_options& options);

/// Whether a run that goes on from `options.resume` has done all its steps.
bool has_nothing_left(const run_plan& plan);

/// Changes a plan into that of a run that goes on from `options.resume`. Under hogwild alone the weights may
/// have lain on a GPU and go on on the host, or the other way round; all workers then begin anew. If no step
/// is left to train, the run writes neither checkpoints nor a recording, unless that is to be completed.
/// Errors  std::invalid_argument in one line: the checkpoint is of another run, with all that differs, or of
///         another number of workers where the run cannot go on with these; archive_error: it lacks a part.
void plan_resume(run_plan& plan);

/// Completes the plan of a run whose workers are of other processes by what each of them computes on.
/// Errors  recording_error: the recording to be replayed or to go on is of workers on something else.
void take_computers(run_plan& plan, std::vector<worker_computer> told);

} // namespace mailgrad
