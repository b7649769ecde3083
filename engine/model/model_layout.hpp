#pragma once

#include <mailgrad/graph/models/model.hpp>
#include <mailgrad/graph/parameter_layout.hpp>
#include <mailgrad/optim/optimizer_options.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mailgrad {

/// Lays the variables of a model out over `shards` shards. Workers may build different graphs, so the layout
/// has the variables of all `request.workers` of them.
///
/// Errors  graph_error from the model function, or as variable_union has it; std::invalid_argument for more
///         shards than can be cut.
parameter_layout lay_out(const model_function& build, model_request request, std::size_t shards,
                         shard_cuts where = shard_cuts::within_variables);

// What the optimiser of `options` must be told of variables: nothing, unless it looks at whole ones.

/// Those of one shard.
///
/// Errors  std::invalid_argument: a variable of the shard lies in others too.
std::vector<shard_variable> variables_for(const optimizer_options& options, const parameter_layout& layout,
                                          std::uint32_t shard);
/// All of the model, for an optimiser of one flat vector.
std::vector<shard_variable> all_variables_for(const optimizer_options& options,
                                              const parameter_layout& layout);

/// The variables of one shard, whatever its optimiser; none if one of them lies in others too.
std::vector<shard_variable> whole_variables_of(const parameter_layout& layout, std::uint32_t shard);

} // namespace mailgrad
