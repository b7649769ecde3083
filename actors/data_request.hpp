#pragma once

#include <mailgrad/data/dataset.hpp>
#include <mailgrad/graph/models/model.hpp>

#include <cstddef>

namespace mailgrad {

/// What a model has to fit in order to learn from `data` in mini-batches of `batch` samples.
model_request request_for(const data_split& data, std::size_t batch);

/// Whether a model that was built for `request` can read these samples: they are of one kind and size, and their classes
/// or categories are among its own.
///
/// Errors  std::invalid_argument, with what was expected and found.
void require_readable(const model_request& request, const dataset& samples);

} // namespace mailgrad
