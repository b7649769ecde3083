#pragma once

#include <mailgrad/engine/plan/run_plan.hpp>

#include <string>
#include <vector>

namespace mailgrad {

/// A line for the user for each policy of the run that gathers more gradients for an update than it gets.
std::vector<std::string> update_remarks(const run_plan& plan);

} // namespace mailgrad
