#pragma once

#include <mailgrad/graph/graph.hpp>
#include <mailgrad/tensor/device.hpp>

#include <source_location>
#include <span>

namespace mailgrad {

/// Cuts the forward pass of a model into stages that follow one another, one on each device, with as equal work as the
/// order of its operations allows. Operations that have a scope keep it.
///
/// Work is counted in multiply-adds and values written, as operation::work() has it; the backward pass of a stage costs
/// in proportion. Where several cuts are as good, the one over which fewer bytes go is taken.
///
/// Errors  graph_error: fewer operations than devices; a device that is not there.
void place_in_stages(graph& g, const value& loss, std::span<const device> devices,
                     std::source_location where = std::source_location::current());

} // namespace mailgrad
