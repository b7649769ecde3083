#pragma once

#include <mailgrad/graph/models/model.hpp>

namespace mailgrad {

// Models made to span the devices that a worker has (model_request::devices), out of models that know nothing
// of devices.

/// In-graph replication of a whole model: built once for each device on its part of the batch, with shared
/// variables; predictions are joined along the batch, and the loss is the mean over all samples.
///
/// Errors  graph_error for rows that are mostly zero, whose parts do not lie one behind the other; for a
///         batch smaller than the devices, the last ones do nothing.
model_function replicated(model_function model);

/// A pipeline: the forward pass in stages of equal work, one for each device (stages_of). The cut is that of
/// a batch of 64, so that micro-batches of all sizes are cut alike.
///
/// Errors  graph_error for a model that builds other operations for another batch: scopes must place it.
model_function pipelined(model_function model);

} // namespace mailgrad
