#pragma once

#include <mailgrad/graph/models/model.hpp>

namespace mailgrad {

// These functions make models that span the devices of a worker (model_request::devices) out of models for
// one device.

/// In-graph replication of a whole model. It is built once for each device, on a part of the batch, with
/// shared variables. Predictions are joined along the batch, and the loss is the mean over all samples. If
/// the batch is smaller than the number of devices, the last devices do nothing.
///
/// Errors  graph_error for rows that are mostly zero, which cannot be split along the batch.
model_function replicated(model_function model);

/// A pipeline: the forward pass is cut into stages of about equal work, one for each device (stages_of). The
/// stages are computed for a batch of 64, so that micro-batches of all sizes are cut in the same places.
///
/// Errors  graph_error for a model that builds other operations for another batch; it must be placed by
///         scopes.
model_function pipelined(model_function model);

} // namespace mailgrad
