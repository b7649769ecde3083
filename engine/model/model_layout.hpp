#pragma once

#include <mailgrad/graph/models/model.hpp>
#include <mailgrad/graph/parameter_layout.hpp>

#include <cstddef>

namespace mailgrad {

/// Lays the variables of a model out over `shards` shards. Workers may build different graphs, so the layout
/// has the variables of all `request.workers` of them.
///
/// Errors  graph_error from the model function, or as variable_union has it; std::invalid_argument for more
///         shards than can be cut.
parameter_layout lay_out(const model_function& build, model_request request, std::size_t shards,
                         shard_cuts where = shard_cuts::within_variables);

} // namespace mailgrad
