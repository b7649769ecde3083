#pragma once

#include <mailgrad/graph/value.hpp>

#include <cstddef>
#include <source_location>

namespace mailgrad {

/// Causal scaled dot-product attention in several heads. Each position of a window gets a mean of the values
/// at and before it, weighted by the softmax of query . key / sqrt(width of a head).
///
/// Source  Vaswani et al., "Attention Is All You Need", NIPS 2017, sections 3.2.1 to 3.2.3. Differs: the
///         projections before and after it are separate dense layers.
/// Shapes  qkv: float32[batch, window, 3 * width]: the queries of all heads, then their keys, then their
///         values; result: [batch, window, width].
/// Errors  graph_error for other ranks and types, or a width that `heads` does not divide.
value causal_attention(const value& qkv, std::size_t heads,
                       std::source_location where = std::source_location::current());

} // namespace mailgrad
