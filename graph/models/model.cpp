#include <mailgrad/graph/models/built_in.hpp>
#include <mailgrad/graph/models/model.hpp>
#include <mailgrad/graph/models/model_file.hpp>
#include <mailgrad/options/spelling.hpp>
#include <mailgrad/tensor/fail_with.hpp>

#include <algorithm>

namespace mailgrad {
namespace {

bool is_content(std::string_view text) { return text.starts_with('{'); }

model_function model_of(layer_stack layers) {
  return [layers = std::move(layers)](graph& g, const model_request& request) {
    return build_classifier(g, layers, request);
  };
}

void require_made(const graph& g, const value& v, const char* name) {
  if (!g.has(v)) fail_with<graph_error>("the model gives no {} of its graph; return {{logits, loss}}", name);
}

value_type type_of_logits(const model_request& r) {
  std::vector<std::size_t> extents{r.batch};
  if (r.features == feature_kind::tokens)
    extents.insert(extents.end(), r.sample_dims.begin(), r.sample_dims.end());
  extents.push_back(r.outputs());
  return {shape(extents), dtype::float32};
}

void require_type(const graph& g, const value& v, const value_type& expected, const std::string& what) {
  if (v.type() != expected)
    fail_with<graph_error>("{}: {} {}, not {}", line_of(g.of(v)), what, to_string(expected),
                           to_string(v.type()));
}

std::string format_answers(const model_request& r) {
  if (r.wanted == answer::a_class) return fmt::format("{} classes", r.outputs());
  return r.outputs() == 1 ? "a number for each sample"
                          : fmt::format("{} numbers for each sample", r.outputs());
}

} // namespace

model_outputs build_model(const model_function& build, graph& g, const model_request& request) {
  if (!build) throw std::invalid_argument("model: there is no function that builds one");
  const model_outputs made = build(g, request);
  require_made(g, made.loss, "loss");
  require_made(g, made.logits, "logits");
  require_type(g, made.loss, {}, "the loss must be a scalar,");
  require_type(g, made.logits, type_of_logits(request),
               fmt::format("{} in a batch of {} need logits of", format_answers(request), request.batch));
  return made;
}

model_function find_model(std::string_view name_or_file) {
  if (auto model = built_in_model(name_or_file)) return *std::move(model);
  if (is_content(name_or_file)) return model_of(parse_model_file(name_or_file, "model"));
  const std::filesystem::path file(name_or_file);
  if (std::filesystem::is_directory(file))
    fail_with<std::invalid_argument>("model '{}' is a folder; name a JSON file of layers", name_or_file);
  if (file.extension() == ".json" || std::filesystem::exists(file)) return model_of(read_model_file(file));
  fail_with<std::invalid_argument>("model '{}' is neither built in nor a file; {}", name_or_file,
                                   suggestion(name_of_choice(name_or_file), built_in_models()));
}

std::string model_text(std::string_view name_or_file) {
  if (built_in_model(name_or_file) || is_content(name_or_file)) return std::string(name_or_file);
  const std::string text = text_of_model_file(std::filesystem::path(name_or_file));
  return text.substr(std::min(text.find('{'), text.size()));
}

} // namespace mailgrad
