#pragma once

#include <mailgrad/graph/value.hpp>

#include <source_location>

namespace mailgrad {

/// The dot products of all pairs of vectors in a sample, in the order (1,0), (2,0), (2,1), (3,0), ... A
/// factorisation machine combines features in this way.
///
/// Source  Rendle, "Factorization Machines", ICDM 2010; as a layer, Naumov et al. 2019, arXiv:1906.00091.
/// Shapes  x: float32[samples, count, width]; the result: float32[samples, count * (count - 1) / 2].
/// Errors  graph_error for other ranks and types, or fewer than two vectors.
value pairwise_dots(const value& x, std::source_location where = std::source_location::current());

} // namespace mailgrad
