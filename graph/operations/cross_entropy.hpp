#pragma once

#include <mailgrad/graph/value.hpp>

#include <source_location>

namespace mailgrad {

/// exp(x) / sum of exp(x), over the last axis.
///
/// Shapes  x: float32 of rank 1 or more; the result has the same shape.
/// Errors  graph_error for another type or a scalar.
value softmax(const value& x, std::source_location where = std::source_location::current());

/// The mean of -log(softmax(logits)[label]): the loss of a classifier. Softmax and logarithm are computed
/// together, so that the loss is finite for any finite logits.
///
/// Shapes  logits: float32[..., classes]; labels: int32[...]; the result is a scalar.
/// Errors  graph_error if the leading axes differ, or there are no classes. A run throws std::out_of_range
///         for a label that is no class.
value cross_entropy(const value& logits, const value& labels,
                    std::source_location where = std::source_location::current());

} // namespace mailgrad
