#pragma once

#include <mailgrad/graph/graph.hpp>
#include <mailgrad/kernels/elementwise.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace mailgrad {

/// Element-wise nodes that run as one kernel, at the place of their last node in the order of the graph.
struct fused_run {
  std::vector<std::uint32_t> nodes; ///< ascending, at least two
  std::vector<value> inputs;        ///< values that the nodes read from outside the run
  std::vector<value> outputs;       ///< results that other nodes read or the caller fetches
  elementwise_chain chain;
  std::optional<std::size_t> overwrites; ///< the input whose memory outputs[0] may take
};

/// Finds runs of nodes that read each other's results, over values of one size. No node is in two runs. A run
/// is computed at its last node, so nodes outside must not read its results before that.
///
/// `needed` tells for each node whether it is computed at all.
/// Errors  graph_error if `needed` has not one element for each node.
std::vector<fused_run> find_fused_runs(const graph& model, std::span<const char> needed,
                                       std::span<const value> fetches);

} // namespace mailgrad
