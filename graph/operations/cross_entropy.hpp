#pragma once

#include <mailgrad/graph/value.hpp>

#include <source_location>

namespace mailgrad {

/// The mean of -log(softmax(logits)[label]): the loss of a classifier. Softmax and logarithm are computed
/// together, so that it stays finite for any finite logits.
///
/// A label that is no class makes the loss NaN.
/// Shapes  logits: float32[..., classes]; labels: int32[...]; the result is a scalar.
/// Errors  graph_error if the leading axes differ, or there are no classes.
value cross_entropy(const value& logits, const value& labels,
                    std::source_location where = std::source_location::current());

} // namespace mailgrad
