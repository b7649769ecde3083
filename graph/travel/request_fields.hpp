#pragma once

#include <mailgrad/files/archive.hpp>
#include <mailgrad/graph/models/model.hpp>

#include <string>
#include <utility>
#include <vector>

namespace mailgrad {

/// Keeps what a model is built for.
void keep(archive& a, model_request& r);

/// The fields of a request in words, such as {"batch", "64"}. Requests with the same words get the same
/// model; devices count, but their names do not.
std::vector<std::pair<std::string, std::string>> fields_in_words(const model_request& r);

/// The device of `now` that has the place of `d` among those of `then`; `d` itself if it has none.
device same_place(device d, const std::vector<device>& then, const std::vector<device>& now);

} // namespace mailgrad
