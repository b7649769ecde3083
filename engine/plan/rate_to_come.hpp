#pragma once

#include <mailgrad/engine/plan/run_plan.hpp>

#include <string>

namespace mailgrad {

/// A line for the user if the schedule of a run that goes on takes the learning rate to 0 long before its
/// end; else empty. How many updates the run will make is reckoned from those that it has made.
std::string rate_to_come(const run_plan& plan, const resumed_run& resumed);

} // namespace mailgrad
