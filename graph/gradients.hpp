#pragma once

#include <mailgrad/graph/operation.hpp>

namespace mailgrad {

/// Adds the nodes of reverse-mode differentiation of `loss` to its graph.
///
/// Source  Griewank & Walther, "Evaluating Derivatives", 2nd ed., SIAM 2008, chapter 3.
/// Shapes  loss: scalar. The result has one adjoint for each of `with_respect_to`, empty where the loss does
///         not depend on it. Variables that only gathering operations read get sparse parts, other values a
///         dense one.
/// Errors  graph_error, naming the user's line, if the loss is no scalar, or if an operation in its path has
///         no gradient or one of another shape than the operand.
std::vector<adjoint> gradients(const value& loss, std::span<const value> with_respect_to,
                               std::source_location where = std::source_location::current());

} // namespace mailgrad
