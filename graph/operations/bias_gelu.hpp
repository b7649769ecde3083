#pragma once

#include <mailgrad/graph/value.hpp>

#include <source_location>

namespace mailgrad {

/// gelu(x + b) in one pass over x, with b added to each row. Its gradient takes one more pass.
///
/// Source  Hendrycks & Gimpel, arXiv:1606.08415.
/// Shapes  x: float32[..., n]; b: float32[n].
/// Errors  graph_error for other shapes and types.
value bias_gelu(const value& x, const value& b, std::source_location where = std::source_location::current());

} // namespace mailgrad
