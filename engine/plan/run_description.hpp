#pragma once

#include <mailgrad/engine/account/tensorboard_file.hpp>
#include <mailgrad/engine/account/training_report.hpp>
#include <mailgrad/engine/plan/run_plan.hpp>
#include <mailgrad/engine/record/recording.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace mailgrad {

/// Adds the part of a report that comes from the plan: options, devices, data, sizes and the program. Call it
/// after report_of(), whose staleness and steps it uses.
void describe(training_report& r, const run_plan& plan);

/// Also adds how long the run took, with the time before it was resumed, and what became of its checkpoints.
void describe(training_report& r, const run_plan& plan, instant elapsed, const checkpoint_account& kept);

/// Adds when the policy was switched, of a run whose present process began at `started`. Its clock does not
/// know when earlier processes switched.
void date_switches(training_report& r, const run_plan& plan, instant started);

/// What tells runs apart in TensorBoard's table of them.
board_options options_of(const run_plan& plan);

/// The header of this run's recording. A run that goes on with a recording repeats what that says of the
/// first weights and of workers in other processes, which must be the same.
recording_header recording_header_of(const run_plan& plan);

/// The bytes that this run still has to write beside its recording when the disk is full: the weights,
/// reports, and checkpoints until the first of them is removed for the next one.
std::uint64_t room_beside_recording(const run_plan& plan, const checkpoint_account& so_far);

/// A line for the user for each policy of the run that gathers more gradients for an update than it gets.
std::vector<std::string> update_remarks(const run_plan& plan);

} // namespace mailgrad
