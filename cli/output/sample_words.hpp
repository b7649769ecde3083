#pragma once

#include <mailgrad/graph/models/model.hpp>

#include <string>

namespace mailgrad {

/// What kind of samples a model reads: "text", "pictures", "rows of categories", "rows of numbers" or
/// "arrays".
std::string kind_of_samples(const model_request& r);

/// The same with their size: "rows of 4 numbers", "pictures of 28x28"
std::string samples_in_words(const model_request& r);

/// Refuses a built-in model that reads samples of another kind than this data set has, and says which to
/// take.
///
/// Errors  std::invalid_argument in one line.
void require_kind_of_samples(const std::string& model, const std::string& data, const model_request& r);

} // namespace mailgrad
