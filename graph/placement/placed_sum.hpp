#pragma once

#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/placement/placement.hpp>

#include <vector>

namespace mailgrad {

/// Returns the addends of `sum`, in their order, if each of them is computed on another device. A reader of
/// the sum may then take the addends from their devices, so that no device waits for the others. Otherwise it
/// returns only `sum`.
///
/// The gradient of a variable that replicas share is such a sum.
/// Errors  graph_error if `sum` belongs to another graph.
std::vector<value> addends_on_devices(const graph& g, const placement& places, const value& sum);

} // namespace mailgrad
