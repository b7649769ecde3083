#pragma once

#include <mailgrad/graph/graph.hpp>

#include <span>
#include <vector>

namespace mailgrad {

/// By node, 1 for those whose outputs `wanted` depends on, its own among them. What is `given` need not be
/// computed, nor what only it depends on.
///
/// Errors  graph_error for a value of another graph.
std::vector<char> needed_for(const graph& g, std::span<const value> wanted,
                             std::span<const value> given = {});

} // namespace mailgrad
