#pragma once

#include <mailgrad/graph/value.hpp>

#include <cstdint>
#include <source_location>

namespace mailgrad {

/// Zeroes each element with probability `rate` and divides the others by 1 - rate. A graph for evaluation
/// leaves it out.
///
/// What is dropped depends on the seed, the number of the step and the position alone, so a run can be
/// repeated; two dropouts of one graph need two seeds.
/// Source  Srivastava et al., "Dropout: A Simple Way to Prevent Neural Networks from Overfitting", JMLR 15,
///         2014. Differs: scales while training, so that an evaluation has nothing to scale.
/// Shapes  x: float32, any rank.
/// Errors  graph_error unless rate is in [0, 1).
value dropout(const value& x, float rate, std::uint64_t seed,
              std::source_location where = std::source_location::current());

} // namespace mailgrad
