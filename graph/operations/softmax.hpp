#pragma once

#include <mailgrad/graph/value.hpp>

#include <source_location>

namespace mailgrad {

/// exp(x) / sum of exp(x), over the last axis.
///
/// Shapes  x: float32 of rank 1 or more; the result has the same shape.
/// Errors  graph_error for another type or a scalar.
value softmax(const value& x, std::source_location where = std::source_location::current());

} // namespace mailgrad
