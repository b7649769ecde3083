#pragma once

#include <mailgrad/graph/placement/placement.hpp>

namespace mailgrad {

/// A value to compute, and the place of its delivery.
struct wanted_value {
  value what;
  std::optional<value> beside{}; ///< delivered by the segment of this value; if unset, by its own
};

/// Operations that one device computes without waiting in between, once it has the values of other segments.
struct segment {
  device where;
  std::vector<value> imports;       ///< values that earlier segments compute
  std::vector<value> exports;       ///< values of this segment that later segments import
  std::vector<std::size_t> fetches; ///< values delivered here, as indices in the list of wanted values
  std::vector<std::size_t> reads;   ///< the segments that compute the imports, ascending
};

/// Cuts a placed graph into segments, in an order in which they can be computed one after the other.
///
/// A segment ends where the device waits for a value of another device. A chain of two devices has three
/// segments: the first half of the forward pass; the second half with its backward pass; and the rest of the
/// backward pass, on the first device again. Segments contain only nodes that the wanted values need.
///
/// Errors  graph_error if a wanted value belongs to another graph, or would have to be delivered before it is
///         computed.
std::vector<segment> cut_into_segments(const graph& g, const placement& places,
                                       std::span<const wanted_value> wanted);

} // namespace mailgrad
