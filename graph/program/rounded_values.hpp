#pragma once

#include <mailgrad/graph/program/program_plan.hpp>

namespace mailgrad {

/// Lets products read bfloat16. A value lies as bfloat16 alone if the kernel that makes it may write that and
/// all that read it may read it, as bfloat16_form tells. Other values that products read get a copy: a kernel
/// makes it before the first of them, and all read the same one. To be called before plan_storage().
void round_products(program_plan& plan);

} // namespace mailgrad
