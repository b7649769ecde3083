#pragma once

#include <mailgrad/engine/account/training_report.hpp>
#include <mailgrad/engine/plan/run_plan.hpp>

namespace mailgrad {

/// Adds the part of a report that comes from the plan: options, devices, data, sizes and the program. Call it
/// after report_of(), whose staleness and steps it uses.
void describe(training_report& r, const run_plan& plan);

/// Also adds how long the run took, with the time before it was resumed, and what became of its checkpoints.
void describe(training_report& r, const run_plan& plan, instant elapsed, const checkpoint_account& kept);

} // namespace mailgrad
