#include <mailgrad/graph/models/model.hpp>

#include <mailgrad/graph/models/layer_stack.hpp>
#include <mailgrad/graph/models/model_file.hpp>
#include <mailgrad/tensor/nearest_name.hpp>

#include <array>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace mailgrad {

namespace {

constexpr std::array<std::string_view, 3> names{"softmax", "mlp", "lenet"};

layer_stack softmax_regression() { return {dense_layer{}}; }

layer_stack mlp() {
  return {dense_layer{512, activation::relu}, dense_layer{256, activation::relu}, dense_layer{}};
}

/// Source  LeCun, Bottou, Bengio & Haffner, Proc. IEEE 86(11), 1998, in the wider form that TensorFlow's
/// tutorials
///         made common: 32 and 64 filters of 5 x 5, relu, max pooling, 512 units.
layer_stack lenet() {
  const conv_options five{{5, 5}, {1, 1}, padding::same(), activation::relu};
  return {conv_layer{32, five},
          pool_layer{},
          conv_layer{64, five},
          pool_layer{},
          dense_layer{512, activation::relu},
          dense_layer{}};
}

bool is_file(std::string_view name) {
  return name.ends_with(".json") || std::filesystem::exists(std::filesystem::path(name));
}

layer_stack find_layers(std::string_view name) {
  if (name == "softmax") return softmax_regression();
  if (name == "mlp") return mlp();
  if (name == "lenet") return lenet();
  if (is_file(name)) return read_model_file(std::filesystem::path(name));
  throw std::invalid_argument("model '" + std::string(name) +
                              "' is neither built in nor a file; did you mean '" +
                              std::string(nearest_name(name, names)) + "'?");
}

} // namespace

model_function find_model(std::string_view name_or_file) {
  return [layers = find_layers(name_or_file)](graph& g, const model_request& request) {
    return build_classifier(g, layers, request);
  };
}

} // namespace mailgrad
