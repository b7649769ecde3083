#include <mailgrad/actors/bound_model.hpp>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace mailgrad {

const tensor batch::*batch_part(std::string_view input) {
  static constexpr std::array<std::pair<std::string_view, const tensor batch::*>, 6> parts{
      {{batch_input::features, &batch::features},
       {batch_input::columns, &batch::columns},
       {batch_input::values, &batch::values},
       {batch_input::offsets, &batch::offsets},
       {batch_input::categories, &batch::categories},
       {batch_input::labels, &batch::labels}}};
  const auto found = std::ranges::find(parts, input, [](const auto& part) { return part.first; });
  if (found != parts.end()) return found->second;
  throw graph_error(
      "input '" + std::string(input) +
      "' is not part of a batch, which has features, columns, values, offsets, categories and labels");
}

namespace {

/// Of the part of a batch that feeds this input; a batch is bound by address, without a further question.
dtype type_of_part(std::string_view input, const model_request& request) {
  if (input == batch_input::labels) return request.wanted == answer::a_number ? dtype::float32 : dtype::int32;
  if (input == batch_input::features)
    return request.features == feature_kind::tokens ? dtype::int32 : dtype::float32;
  return input == batch_input::values ? dtype::float32 : dtype::int32;
}

void require_type(const value& v, const std::string& name, const model_request& request) {
  const dtype expected = type_of_part(name, request);
  if (v.type().type == expected) return;
  throw graph_error(
      "input '" + name + "' of the model is " + std::string(to_string(v.type().type)) +
      ", where the data set has " + std::string(to_string(expected)) +
      (name == batch_input::labels && expected == dtype::float32 ? ", numbers to predict" : ""));
}

} // namespace

bound_model::bound_model(const model_function& build, const model_request& request,
                         const parameter_layout& layout, const choose_fetches& choose)
    : graph_(std::make_unique<graph>()) {
  const model_outputs outputs = build(*graph_, request);
  const std::vector<value> fetches = choose(*graph_, outputs);
  program_ = std::make_unique<program>(*graph_, fetches);
  sources_.emplace(*graph_, *program_, layout, request);
}

bound_sources::bound_sources(const graph& g, const program& code, const parameter_layout& layout,
                             const model_request& request) {
  for (const value& v : g.inputs()) {
    if (!code.needs(v)) continue;
    const std::string& name = g.of(v).name;
    inputs_.push_back({v, batch_part(name)});
    require_type(v, name, request);
  }
  for (const value& v : g.variables()) {
    const std::string& name = g.of(v).name;
    const auto& placed = layout.variables();
    const auto found = std::ranges::find(placed, name, &placed_variable::name);
    if (found == placed.end() || !(found->dims == v.dims()))
      throw graph_error("variable '" + name + "' of shape " + to_string(v.dims()) +
                        " is not in the layout of this run" +
                        (found == placed.end() ? "" : ", which has it with shape " + to_string(found->dims)));
    variables_.push_back({v, static_cast<std::size_t>(found - placed.begin())});
  }
}

void bound_sources::bind(program& code, const batch& inputs, const weight_addresses& weights) const {
  for (const input_binding& b : inputs_) code.bind(b.what, (inputs.*b.part).data());
  for (const variable_binding& b : variables_) code.bind(b.what, weights.of(b.index));
}

} // namespace mailgrad
