#pragma once

#include <mailgrad/graph/models/layer_stack.hpp>

namespace mailgrad {

/// Reads a model from a JSON file:
///
///   {"name": "small",
///    "layers": [{"conv": {"filters": 32, "size": 5, "activation": "relu"}}, {"max_pool": {"size": 2}},
///               {"dense": {"units": 128, "activation": "relu"}}, {"dropout": {"rate": 0.5}},
///               {"dense": {"units": "classes"}}]}
///
///   dense                   units: a number or "classes", the default; activation
///   conv                    filters; size 3; stride 1; padding "same" or "valid"; activation
///   max_pool, average_pool  size 2; stride, as size
///   embedding               width: of the vectors that stand for tokens
///   dropout                 rate 0.5
///   flatten, layer_norm     no settings
///
/// Activations are none, relu, gelu, tanh and sigmoid. A dense layer of the classes is added, unless the last
/// layer is a dense layer without an activation or with "classes" units.
/// Errors  std::invalid_argument in one line: the file, the layer by number, the setting, and what was
///         expected and found.
layer_stack read_model_file(const std::filesystem::path& file);

/// The same for the content of such a file; `name` stands in errors.
layer_stack parse_model_file(std::string_view text, const std::string& name);

/// Errors  std::invalid_argument if the file cannot be read.
std::string text_of_model_file(const std::filesystem::path& file);

} // namespace mailgrad
