#pragma once

#include <mailgrad/graph/graph.hpp>
#include <mailgrad/kernels/elementwise.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace mailgrad {

/// Element-wise nodes that run as one kernel, at the place of the last of them.
struct fused_run {
  std::vector<std::uint32_t> nodes; ///< ascending, at least two
  std::vector<value> inputs;        ///< what they read from outside
  std::vector<value> outputs;       ///< what others read, or the caller fetches
  elementwise_chain chain;
  std::optional<std::size_t> overwrites; ///< the input whose memory outputs[0] may take
};

/// Runs of nodes that read each other's results, over values of one size; no node is in two of them. Of a
/// node whose result somebody outside reads before the run ends, the run takes no more than that node.
///
/// `needed` tells for each node whether it is to be computed at all.
/// Errors  graph_error if it does not tell it for each.
std::vector<fused_run> find_fused_runs(const graph& model, std::span<const char> needed,
                                       std::span<const value> fetches);

} // namespace mailgrad
