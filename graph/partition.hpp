#pragma once

#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/placement.hpp>

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace mailgrad {

/// A value to compute, and where to deliver it.
struct wanted_value {
  value what;
  std::optional<value> beside{}; ///< on the device that computes this one, at the same time; none: on its own
};

/// Operations that one device computes in one go, once it has what other segments computed for it.
struct segment {
  device where;
  std::vector<value> imports;       ///< computed by earlier segments
  std::vector<value> exports;       ///< computed here, imported by later segments
  std::vector<std::size_t> fetches; ///< delivered here: places in the list of wanted values
  std::vector<std::size_t> reads;   ///< segments that compute the imports, ascending
};

/// A placed graph cut into segments, in an order in which they can be computed one after the other.
///
/// A segment ends where a value of another device is waited for, so a chain of two devices has three: the
/// first half of the forward pass; the second half, forward and backward; and the rest of the backward pass,
/// again on the first device. Only what the wanted values need is in it.
///
/// Errors  graph_error if a wanted value belongs to another graph, or is to be delivered before it can be
///         computed.
std::vector<segment> cut_into_segments(const graph& g, const placement& places,
                                       std::span<const wanted_value> wanted);

/// What `from` computes for `to`, in bytes.
std::size_t bytes_between(const segment& from, const segment& to);

} // namespace mailgrad
