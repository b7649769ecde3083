#include <mailgrad/graph/models/built_in.hpp>
#include <mailgrad/graph/models/dlrm.hpp>
#include <mailgrad/graph/models/gpt.hpp>
#include <mailgrad/graph/models/quadratic_model.hpp>
#include <mailgrad/options/spelling.hpp>

#include <algorithm>
#include <iterator>

namespace mailgrad {
namespace {

model_function classifier(layer_stack layers) {
  return [layers = std::move(layers)](graph& g, const model_request& request) {
    return build_classifier(g, layers, request);
  };
}

/// A model whose options are taken from settings.
template <auto Build, auto Take>
model_function built_by(settings& s) {
  return [options = Take(s)](graph& g, const model_request& request) { return Build(g, options, request); };
}

constexpr std::array forms{
    built_in_form{
        "dlrm",
        "embeddings of categories, for recommendations; width=16, bottom=64, top=64x32, interaction=dot",
        built_by<build_dlrm, take_dlrm_options>},
    built_in_form{"mlp", "dense layers; hidden=512x256, activation=relu, dropout=0",
                  [](settings& s) { return classifier(mlp_layers(s)); }},
    built_in_form{"lenet", "two convolutions with max pooling and a dense layer, for pictures",
                  [](settings&) { return classifier(lenet_layers()); }},
    built_in_form{"gpt", "transformer for texts; layers=2, width=128, heads=4, dropout=0, tied=yes",
                  built_by<build_gpt, read_gpt_options>},
    built_in_form{
        "quadratic",
        "for the lab, reads no features; dimension=100, curvature=1, condition=1, noise=0, noise-form=each, "
        "start=1, form=diagonal",
        built_by<build_quadratic, take_quadratic_options>},
    built_in_form{"softmax", "one dense layer; for sparse rows it updates only the weights of their entries",
                  [](settings&) { return classifier({dense_layer{}}); }},
};

} // namespace

std::span<const built_in_form> built_in_forms() noexcept { return forms; }

std::vector<std::string_view> built_in_models() {
  std::vector<std::string_view> names;
  std::ranges::transform(forms, std::back_inserter(names), &built_in_form::name);
  return names;
}

std::optional<model_function> built_in_model(std::string_view name_and_settings) {
  const std::string_view name = name_of_choice(name_and_settings);
  const auto form = std::ranges::find(forms, name, &built_in_form::name);
  if (form == forms.end()) return std::nullopt;
  settings s("model", name_and_settings);
  model_function model = form->make(s);
  s.require_nothing_left();
  return model;
}

model_function mlp(std::vector<std::size_t> hidden, activation after_each) {
  layer_stack layers;
  for (const std::size_t width : hidden) {
    if (width == 0)
      throw std::invalid_argument("mlp: expected layers of at least one unit, found a width of 0");
    layers.emplace_back(dense_layer{width, after_each});
  }
  layers.emplace_back(dense_layer{});
  return classifier(std::move(layers));
}

layer_stack mlp_layers(settings& s) {
  const auto hidden = s.take_widths("hidden", {512, 256}, largest_extent);
  const auto how = static_cast<activation>(
      s.take_word("activation", static_cast<std::size_t>(activation::relu), activation_names));
  const float dropout = s.take_rate("dropout", 0);
  layer_stack layers;
  for (const std::size_t width : hidden) {
    layers.emplace_back(dense_layer{width, how});
    if (dropout > 0) layers.emplace_back(dropout_layer{dropout});
  }
  layers.emplace_back(dense_layer{});
  return layers;
}

layer_stack lenet_layers() {
  const conv_options five{{5, 5}, {1, 1}, padding::same(), activation::relu};
  return {conv_layer{32, five},
          pool_layer{},
          conv_layer{64, five},
          pool_layer{},
          dense_layer{512, activation::relu},
          dense_layer{}};
}

} // namespace mailgrad
