#pragma once

#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/placement.hpp>

#include <vector>

namespace mailgrad {

/// What `sum` adds up, in that order, if each addend is computed on a device of its own: whoever reads the
/// sum may then take the addends where they lie, and no device has to wait for the others to add. `sum` alone
/// if it is no such sum.
///
/// The gradient of a variable that replicas share is one.
/// Errors  graph_error if `sum` belongs to another graph.
std::vector<value> addends_on_devices(const graph& g, const placement& places, const value& sum);

} // namespace mailgrad
