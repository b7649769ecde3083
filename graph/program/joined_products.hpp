#pragma once

#include <mailgrad/graph/program/program_plan.hpp>

namespace mailgrad {

/// Lets a matrix product add the bias that the only kernel behind it would add: on a card that saves a kernel
/// and a pass over the result. The bias must be there when the program begins. To be called before
/// plan_storage().
void join_products(program_plan& plan);

} // namespace mailgrad
