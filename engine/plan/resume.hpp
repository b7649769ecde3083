#pragma once

#include <mailgrad/engine/plan/run_plan.hpp>
#include <mailgrad/files/folder_lock.hpp>

#include <memory>
#include <string>

namespace mailgrad {

/// Requires a run whose state can be kept, if its options ask for checkpoints.
///
/// Errors  std::invalid_argument: a parameter actor of the user's, or a policy or cure of the user's
///         that cannot be kept.
void require_keepable(const run_plan& plan);

/// What the checkpoints of this run tell of it.
checkpoint_card card_of(const run_plan& plan);

/// Locks the folder of the run's checkpoints and makes it, if it is not there.
///
/// Errors  as prepare_checkpoint_folder() has them; std::invalid_argument in one line: the run goes on from
///         what was the newest checkpoint of that folder and is no more.
std::shared_ptr<const folder_lock> take_checkpoint_folder(const training_options& options);

/// Whether a run that goes on from `options.resume` has done all its steps.
bool has_nothing_left(const run_plan& plan);

/// Changes a plan into that of a run that goes on from `options.resume`. Under hogwild alone the weights may
/// have lain on a card and go on on the host, or the other way round; all workers then begin anew. If no step
/// is left to train, the run has neither a folder for checkpoints nor a recording, unless that is to be
/// completed.
///
/// Errors  std::invalid_argument in one line: the checkpoint is of another run, with all that differs, or of
///         another number of workers where the run cannot go on with these; archive_error: it lacks a part.
void plan_resume(run_plan& plan);

/// Requires that a run with this plan is the one that was recorded before its checkpoint. How long it is and
/// where it began may differ, and so may what workers compute on that have not come yet.
///
/// Errors  recording_error in one line with all that differs.
void require_goes_on(const recording& before, const run_plan& plan);

/// What multiplied on cards until the checkpoint, if another version does now; else empty.
std::string other_products(const run_facts& before, const run_facts& now);

} // namespace mailgrad
