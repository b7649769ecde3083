#pragma once

#include <mailgrad/graph/value.hpp>

#include <source_location>

namespace mailgrad {

/// The dot product of each two vectors of a sample: (1,0), (2,0), (2,1), (3,0), ... How a factorisation
/// machine lets features meet.
///
/// Source  Rendle, "Factorization Machines", ICDM 2010; as a layer, Naumov et al. 2019, arXiv:1906.00091.
/// Shapes  x: float32[samples, count, width]; the result: float32[samples, count * (count - 1) / 2].
/// Errors  graph_error for other ranks and types, or fewer than two vectors.
value pairwise_dots(const value& x, std::source_location where = std::source_location::current());

} // namespace mailgrad
