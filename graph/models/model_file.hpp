#pragma once

#include <mailgrad/graph/models/layer_stack.hpp>

#include <filesystem>

namespace mailgrad {

/// Reads a model from a JSON file: {"layers": [{"conv": {"filters": 32, "size": 5, "activation": "relu"}},
/// {"max_pool": {"size": 2}}, {"dense": {"units": 128, "activation": "relu"}}, {"dropout": {"rate": 0.5}},
/// {"dense": {"units": "classes"}}]}.
///
/// Layers and their settings: dense (units: a number or "classes", activation), conv (filters, size, stride,
/// padding: "same" or "valid", activation), max_pool and average_pool (size, stride), flatten, dropout
/// (rate), layer_norm. Activations: none, relu, gelu, tanh, sigmoid. Errors  std::invalid_argument in one
/// line: the file, the layer by number, the setting, what was expected and found.
layer_stack read_model_file(const std::filesystem::path& file);

} // namespace mailgrad
