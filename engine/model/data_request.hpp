#pragma once

#include <mailgrad/data/dataset.hpp>
#include <mailgrad/graph/models/model.hpp>

#include <cstddef>

namespace mailgrad {

/// Entries that any mini-batch of so many of these samples fits into. A sparse set has room for one at least,
/// even if no row has an entry, since 0 says that rows are dense (model_request::nonzeros).
std::size_t room_for_entries(const dataset& samples, std::size_t batch);

/// What a model has to fit in order to learn from `data` in mini-batches of `batch` samples.
model_request request_for(const data_split& data, std::size_t batch);

/// Whether a model that was built for `request` can read these samples: they are of one kind and size, and
/// their classes or categories are among its own.
///
/// Errors  std::invalid_argument, with what was expected and found.
void require_readable(const model_request& request, const dataset& samples);

} // namespace mailgrad
