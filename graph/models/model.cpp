#include <mailgrad/graph/models/model.hpp>

#include <mailgrad/graph/models/built_in.hpp>
#include <mailgrad/graph/models/model_file.hpp>
#include <mailgrad/tensor/nearest_name.hpp>

#include <filesystem>
#include <stdexcept>

namespace mailgrad {

namespace {

model_function read_model(const std::filesystem::path& file) {
  return [layers = read_model_file(file)](graph& g, const model_request& request) {
    return build_classifier(g, layers, request);
  };
}

} // namespace

model_function find_model(std::string_view name_or_file) {
  if (auto model = built_in_model(name_or_file)) return *std::move(model);
  const std::filesystem::path file(name_or_file);
  if (file.extension() == ".json" || std::filesystem::exists(file)) return read_model(file);
  throw std::invalid_argument("model '" + std::string(name_or_file) + "' is neither built in nor a file; " +
                              suggestion(name_or_file.substr(0, name_or_file.find(':')), built_in_models()));
}

} // namespace mailgrad
