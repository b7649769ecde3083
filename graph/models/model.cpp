#include <mailgrad/graph/models/model.hpp>

#include <mailgrad/graph/models/built_in.hpp>
#include <mailgrad/graph/models/model_file.hpp>
#include <mailgrad/tensor/nearest_name.hpp>

#include <filesystem>
#include <stdexcept>

namespace mailgrad {

namespace {

layer_stack find_layers(std::string_view name) {
  if (const auto layers = built_in_model(name)) return *layers;
  const std::filesystem::path file(name);
  if (file.extension() == ".json" || std::filesystem::exists(file)) return read_model_file(file);
  throw std::invalid_argument("model '" + std::string(name) + "' is neither built in nor a file; " +
                              suggestion(name.substr(0, name.find(':')), built_in_models));
}

} // namespace

model_function find_model(std::string_view name_or_file) {
  return [layers = find_layers(name_or_file)](graph& g, const model_request& request) {
    return build_classifier(g, layers, request);
  };
}

} // namespace mailgrad
