#pragma once

#include <mailgrad/data/dataset.hpp>
#include <mailgrad/graph/models/model.hpp>

#include <cstddef>

namespace mailgrad {

/// The most entries in a mini-batch of `batch` of these samples; 0 for dense samples. For a sparse set it is
/// at least 1, even if no row has an entry, because 0 means dense rows (model_request::nonzeros).
std::size_t room_for_entries(const dataset& samples, std::size_t batch);

/// The request to a model that is to learn from `data` in mini-batches of `batch` samples.
model_request request_for(const data_split& data, std::size_t batch);

/// Requires that a model built for `request` can read these samples: kind and size must be the same, and the
/// model must know their classes and categories.
///
/// Errors  std::invalid_argument, with what was expected and found.
void require_readable(const model_request& request, const dataset& samples);

} // namespace mailgrad
