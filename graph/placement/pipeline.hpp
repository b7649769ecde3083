#pragma once

#include <mailgrad/graph/graph.hpp>

namespace mailgrad {

/// Cuts the forward pass of a model into `count` stages that follow one another, and returns the stage of
/// each operation. The stages have as equal work as the order of the operations allows.
///
/// operation::work() estimates the work of the forward pass; that of the backward pass is taken as
/// proportional. Of cuts that balance the work about equally well, the one with the fewest bytes to send is
/// taken.
///
/// Shapes  one number for each node of `g`; nodes that the loss does not need have none.
/// Errors  graph_error if there are fewer operations than stages.
std::vector<std::optional<std::uint32_t>>
stages_of(const graph& g, const value& loss, std::size_t count,
          std::source_location where = std::source_location::current());

/// Places operations on the device of their stage. Those that a device_scope has placed keep their device.
///
/// Errors  graph_error for more numbers than the graph has nodes, or more stages than devices; nothing has
///         changed then.
void place_in_stages(graph& g, std::span<const std::optional<std::uint32_t>> stages,
                     std::span<const device> devices);

} // namespace mailgrad
