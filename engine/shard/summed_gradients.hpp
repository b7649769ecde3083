#pragma once

#include <mailgrad/engine/shard/push_gradient.hpp>

#include <span>

namespace mailgrad {

/// Checks that the gradients of an update, in the order of their workers, are one sum and all that it is made
/// of, if any of them is part of a sum.
///
/// Errors  std::runtime_error in one line that names worker and step: another carrier, another step or
///         another number of gradients than the first one says, or no gradient of the carrier.
void require_one_sum(std::span<const gradient_header> of_update);

} // namespace mailgrad
