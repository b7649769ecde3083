#pragma once

#include <mailgrad/graph/value.hpp>

#include <source_location>

namespace mailgrad {

// Functions that are applied to each element.
//
// Shapes  float32 of any shape; the result has the same shape.
// Errors  graph_error for integers.

/// max(x, 0); its gradient at 0 is 0.
value relu(const value& x, std::source_location where = std::source_location::current());

/// x Phi(x) with the exact normal distribution Phi, as PyTorch's default; not the tanh approximation.
///
/// Source  Hendrycks & Gimpel, arXiv:1606.08415.
value gelu(const value& x, std::source_location where = std::source_location::current());

value tanh(const value& x, std::source_location where = std::source_location::current());
value sigmoid(const value& x, std::source_location where = std::source_location::current());
value exp(const value& x, std::source_location where = std::source_location::current());
value log(const value& x, std::source_location where = std::source_location::current());
value square(const value& x, std::source_location where = std::source_location::current());
value sqrt(const value& x, std::source_location where = std::source_location::current());

/// gelu(x + b) in one pass over x, with b added to each row. Its gradient takes one more pass.
///
/// Source  Hendrycks & Gimpel, arXiv:1606.08415.
/// Shapes  x: float32[..., n]; b: float32[n].
/// Errors  graph_error for other shapes and types.
value bias_gelu(const value& x, const value& b, std::source_location where = std::source_location::current());

} // namespace mailgrad
