#pragma once

#include <mailgrad/engine/plan/run_plan.hpp>
#include <mailgrad/engine/plan/worker_computers.hpp>

#include <vector>

namespace mailgrad {

/// Completes the plan of a run whose workers are of other processes by what each of them computes on, as all
/// have told before the run begins.
///
/// Errors  recording_error in one line: the recording that is replayed, or that goes on, is of workers that
///         computed on something else.
void take_computers(run_plan& plan, std::vector<worker_computer> told);

} // namespace mailgrad
