#pragma once

#include <mailgrad/data/dataset.hpp>
#include <mailgrad/graph/models/model.hpp>

#include <cstddef>

namespace mailgrad {

/// What a model has to fit in order to learn from `data` in mini-batches of `batch` samples.
model_request request_for(const data_split& data, std::size_t batch);

} // namespace mailgrad
