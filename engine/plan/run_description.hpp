#pragma once

#include <mailgrad/engine/account/tensorboard_event.hpp>
#include <mailgrad/engine/account/training_report.hpp>
#include <mailgrad/engine/plan/run_plan.hpp>

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

} // namespace mailgrad
