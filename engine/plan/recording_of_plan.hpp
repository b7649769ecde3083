#pragma once

#include <mailgrad/engine/account/checkpoint_account.hpp>
#include <mailgrad/engine/plan/run_plan.hpp>
#include <mailgrad/engine/record/recording.hpp>

#include <cstdint>

namespace mailgrad {

/// The header of this run's recording. A run that goes on with a recording repeats what that says of the
/// first weights and of workers in other processes, which must be the same.
recording_header recording_header_of(const run_plan& plan);

/// The bytes that this run still has to write beside its recording when the disk is full: the weights,
/// reports, and checkpoints until the first of them is removed for the next one.
std::uint64_t room_beside_recording(const run_plan& plan, const checkpoint_account& so_far);

} // namespace mailgrad
