#include <mailgrad/graph/models/built_in.hpp>

#include <mailgrad/tensor/nearest_name.hpp>

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <string>

namespace mailgrad {

namespace {

/// "mlp" and what stands behind the colon.
struct model_words {
  std::string_view name;
  std::string_view settings;
};

[[noreturn]] void fail(const model_words& words, std::string_view what) {
  std::string text = "model '";
  text.append(words.name).append(":").append(words.settings).append("': ").append(what);
  throw std::invalid_argument(text);
}

std::string in_quotes(std::string_view text) { return std::string("'").append(text).append("'"); }

/// Takes what stands before the next `separator` off the front of `text`.
std::string_view next_word(std::string_view& text, char separator) {
  const std::string_view word = text.substr(0, text.find(separator));
  text.remove_prefix(std::min(text.size(), word.size() + 1));
  return word;
}

template <class Number>
std::optional<Number> read_number(std::string_view text) {
  Number n{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return n;
}

struct mlp_settings {
  std::vector<std::size_t> hidden{512, 256};
  activation how = activation::relu;
  float dropout = 0;
};

std::vector<std::size_t> read_widths(const model_words& words, std::string_view text) {
  std::vector<std::size_t> widths;
  while (!text.empty()) {
    const std::string_view word = next_word(text, 'x');
    const auto width = read_number<std::size_t>(word);
    if (!width || *width == 0 || *width > largest_extent)
      fail(words, "hidden must be widths such as 512x256, not " + in_quotes(word));
    widths.push_back(*width);
  }
  return widths;
}

activation read_activation(const model_words& words, std::string_view text) {
  const auto found = std::ranges::find(activation_names, text);
  if (found == activation_names.end())
    fail(words, "there is no activation " + in_quotes(text) + "; " + suggestion(text, activation_names));
  return static_cast<activation>(found - activation_names.begin());
}

float read_rate(const model_words& words, std::string_view text) {
  const auto rate = read_number<float>(text);
  if (!rate || !(*rate >= 0 && *rate < 1))
    fail(words, "dropout must be at least 0 and below 1, not " + in_quotes(text));
  return *rate;
}

mlp_settings read_mlp_settings(const model_words& words) {
  static constexpr std::array<std::string_view, 3> keys{"hidden", "activation", "dropout"};
  mlp_settings s;
  std::string_view rest = words.settings;
  while (!rest.empty()) {
    std::string_view text = next_word(rest, ',');
    const std::string_view key = next_word(text, '=');
    if (key == "hidden")
      s.hidden = read_widths(words, text);
    else if (key == "activation")
      s.how = read_activation(words, text);
    else if (key == "dropout")
      s.dropout = read_rate(words, text);
    else
      fail(words, "there is no setting " + in_quotes(key) + "; " + suggestion(key, keys));
  }
  return s;
}

layer_stack mlp(const mlp_settings& s) {
  layer_stack layers;
  for (const std::size_t width : s.hidden) {
    layers.emplace_back(dense_layer{width, s.how});
    if (s.dropout > 0) layers.emplace_back(dropout_layer{s.dropout});
  }
  layers.emplace_back(dense_layer{});
  return layers;
}

layer_stack lenet() {
  const conv_options five{{5, 5}, {1, 1}, padding::same(), activation::relu};
  return {conv_layer{32, five},
          pool_layer{},
          conv_layer{64, five},
          pool_layer{},
          dense_layer{512, activation::relu},
          dense_layer{}};
}

} // namespace

std::optional<layer_stack> built_in_model(std::string_view name_and_settings) {
  model_words words{{}, name_and_settings};
  words.name = next_word(words.settings, ':');
  if (words.name == "mlp") return mlp(read_mlp_settings(words));
  if (words.name != "softmax" && words.name != "lenet") return std::nullopt;
  if (!words.settings.empty()) fail(words, "this model has no settings");
  return words.name == "softmax" ? layer_stack{dense_layer{}} : lenet();
}

} // namespace mailgrad
