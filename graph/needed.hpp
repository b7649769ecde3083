#pragma once

#include <mailgrad/graph/graph.hpp>

#include <span>
#include <vector>

namespace mailgrad {

/// Returns, by node, 1 if the values of `wanted` depend on the node, else 0. Values of `given` are not
/// computed, and neither are nodes that only they depend on.
///
/// Errors  graph_error for a value of another graph.
std::vector<char> needed_for(const graph& g, std::span<const value> wanted,
                             std::span<const value> given = {});

} // namespace mailgrad
