#pragma once

#include <mailgrad/graph/value.hpp>

#include <cstdint>
#include <source_location>

namespace mailgrad {

/// Zeroes each element with probability `rate` and divides the others by 1 - rate. Graphs for evaluation do
/// not contain it.
///
/// Which elements are dropped depends only on the rate, the seed, the number of the step and the position, so
/// a run can be repeated. Two dropouts of one graph need different seeds.
/// Source  Srivastava et al., "Dropout: A Simple Way to Prevent Neural Networks from Overfitting", JMLR 15,
///         2014. Differs: it scales in training, so an evaluation needs no scaling.
/// Shapes  x: float32, any rank.
/// Errors  graph_error unless rate is in [0, 1).
value dropout(const value& x, float rate, std::uint64_t seed,
              std::source_location where = std::source_location::current());

} // namespace mailgrad
