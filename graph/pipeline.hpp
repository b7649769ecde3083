#pragma once

#include <mailgrad/graph/graph.hpp>
#include <mailgrad/tensor/device.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <source_location>
#include <span>
#include <vector>

namespace mailgrad {

/// The stage of each operation of a model's forward pass, if it is cut into `count` stages that follow one
/// another, with as equal work as the order of its operations allows.
///
/// Work is counted as operation::work() has it; the backward pass of a stage costs in proportion. Of cuts
/// that are about as good, the one over which fewest bytes go is taken.
///
/// Shapes  one number for each node of `g`; those that the loss does not need have none.
/// Errors  graph_error: fewer operations than stages.
std::vector<std::optional<std::uint32_t>>
stages_of(const graph& g, const value& loss, std::size_t count,
          std::source_location where = std::source_location::current());

/// Places operations on the device of their stage; those that have a scope keep it.
///
/// Errors  graph_error for stages of nodes that the graph lacks, or more stages than devices; nothing has
///         changed then.
void place_in_stages(graph& g, std::span<const std::optional<std::uint32_t>> stages,
                     std::span<const device> devices);

} // namespace mailgrad
