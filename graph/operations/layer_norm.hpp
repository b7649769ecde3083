#pragma once

#include <mailgrad/graph/value.hpp>

#include <source_location>

namespace mailgrad {

/// Brings each row along the last axis to mean 0 and variance 1, then scales it by gamma and shifts it by
/// beta.
///
/// Source  Ba, Kiros & Hinton, "Layer Normalization", 2016, arXiv:1607.06450, equation 4.
/// Shapes  x: float32[..., n], n at least 1; gamma, beta: float32[n].
/// Units   epsilon is added to the variance.
/// Errors  graph_error for other shapes, or an epsilon that is not above 0.
value layer_norm(const value& x, const value& gamma, const value& beta, float epsilon = 1e-5F,
                 std::source_location where = std::source_location::current());

} // namespace mailgrad
