#include <mailgrad/files/text.hpp>
#include <mailgrad/graph/models/model_file.hpp>
#include <mailgrad/options/spelling.hpp>
#include <mailgrad/tensor/fail_with.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <iterator>

namespace mailgrad {
namespace {

using nlohmann::json;

std::string shown(const json& found) {
  constexpr std::size_t most = 60;
  std::string text = found.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > most) text.replace(most, std::string::npos, "...");
  return text;
}

/// The settings of one layer of the file. Each is taken by its name, and none may be left over.
class layer_settings {
public:
  layer_settings(std::string where, const json& object) : where_(std::move(where)), object_(object) {
    if (!object.is_object()) fail(fmt::format("settings must be an object, not {}", shown(object)));
  }

  [[noreturn]] void fail(const std::string& what) const {
    fail_with<std::invalid_argument>("{}: {}", where_, what);
  }

  const json* take(std::string_view name) {
    known_.push_back(name);
    const auto found = object_.find(std::string(name));
    return found == object_.end() ? nullptr : &*found;
  }

  std::size_t extent(std::string_view name, std::optional<std::size_t> otherwise) {
    const json* found = take(name);
    if (!found && otherwise) return *otherwise;
    if (!found) fail(fmt::format("'{}' is missing", name));
    if (!found->is_number_unsigned() || *found == 0 || *found > largest_extent)
      fail(fmt::format("'{}' must be a whole number from 1 to {}, not {}", name, largest_extent,
                       shown(*found)));
    return found->get<std::size_t>();
  }

  /// Takes a setting that is one of several words, and returns its index in `names`.
  template <std::size_t n>
  std::size_t choice(std::string_view name, const std::array<std::string_view, n>& names,
                     std::size_t otherwise) {
    const json* found = take(name);
    if (!found) return otherwise;
    const auto word = found->is_string() ? found->get<std::string>() : shown(*found);
    const auto at = std::ranges::find(names, word);
    if (at != names.end()) return static_cast<std::size_t>(at - names.begin());
    fail(fmt::format("'{}' cannot be '{}'; {}", name, word, suggestion(word, names)));
  }

  void require_nothing_left() const {
    for (const auto& [key, unused] : object_.items()) {
      if (std::ranges::find(known_, key) != known_.end()) continue;
      if (known_.empty()) fail(fmt::format("there are no settings, but here is '{}'", key));
      fail(fmt::format("there is no setting '{}'; {}", key, suggestion(key, known_)));
    }
  }

private:
  std::string where_;
  const json& object_;
  std::vector<std::string_view> known_;
};

activation take_activation(layer_settings& s) {
  return static_cast<activation>(s.choice("activation", activation_names, 0));
}

layer read_dense(layer_settings& s) {
  dense_layer l;
  const json* units = s.take("units");
  if (units && *units != "classes") l.units = s.extent("units", {});
  l.how = take_activation(s);
  return l;
}

layer read_conv(layer_settings& s) {
  static constexpr std::array<std::string_view, 2> paddings{"same", "valid"};
  conv_layer l;
  l.filters = s.extent("filters", {});
  const std::size_t size = s.extent("size", 3);
  const std::size_t stride = s.extent("stride", 1);
  l.options = {{size, size}, {stride, stride}, padding::same(), take_activation(s)};
  if (s.choice("padding", paddings, 0) == 1) l.options.pad = padding::valid();
  return l;
}

layer read_pool(layer_settings& s, pool_layer::rule how) {
  const std::size_t size = s.extent("size", 2);
  return pool_layer{how, size, s.extent("stride", size)};
}

layer read_dropout(layer_settings& s) {
  dropout_layer l;
  const json* rate = s.take("rate");
  if (!rate) return l;
  if (!rate->is_number() || *rate < 0 || *rate >= 1)
    s.fail(fmt::format("'rate' must be at least 0 and less than 1, not {}", shown(*rate)));
  l.rate = rate->get<float>();
  return l;
}

layer read_kind(const std::string& kind, layer_settings& s) {
  static constexpr std::array<std::string_view, 8> kinds{"dense",     "conv",    "max_pool", "average_pool",
                                                         "embedding", "flatten", "dropout",  "layer_norm"};
  if (kind == "dense") return read_dense(s);
  if (kind == "conv") return read_conv(s);
  if (kind == "max_pool") return read_pool(s, pool_layer::rule::largest);
  if (kind == "average_pool") return read_pool(s, pool_layer::rule::mean);
  if (kind == "embedding") return embedding_layer{s.extent("width", {})};
  if (kind == "flatten") return flatten_layer{};
  if (kind == "dropout") return read_dropout(s);
  if (kind == "layer_norm") return layer_norm_layer{};
  s.fail(fmt::format("there is no layer '{}'; {}", kind, suggestion(kind, kinds)));
}

layer read_layer(const std::string& where, const json& entry) {
  if (!entry.is_object() || entry.size() != 1)
    fail_with<std::invalid_argument>(
        R"({}: a layer is an object with one key, its kind, such as {{"dense": {{}}}}, not {})", where,
        shown(entry));
  const std::string kind = entry.begin().key();
  layer_settings s(fmt::format("{} ({})", where, kind), entry.begin().value());
  layer l = read_kind(kind, s);
  s.require_nothing_left();
  return l;
}

std::string name_of(const std::filesystem::path& file) {
  return fmt::format("model file '{}'", file.string());
}

json parse(std::string_view text, const std::string& name) {
  if (is_too_deep(text))
    fail_with<std::invalid_argument>(
        "{}: lists and objects stand within each other more than {} deep; a model needs four", name,
        most_json_depth);
  try {
    return json::parse(whole_json(text));
  } catch (const json::exception& e) {
    const std::string_view what = e.what(); // "[json.exception.parse_error.101] parse error at line 1, ..."
    fail_with<std::invalid_argument>("{}: {}", name, what.substr(what.find("] ") + 2));
  }
}

const json& list_of_layers(const json& model, const std::string& name) {
  static constexpr std::array<std::string_view, 2> keys{"name", "layers"};
  if (!model.is_object())
    fail_with<std::invalid_argument>("{}: expected an object, not {}", name, shown(model));
  for (const auto& [key, unused] : model.items())
    if (std::ranges::find(keys, key) == keys.end())
      fail_with<std::invalid_argument>("{}: there is no key '{}'; {}", name, key, suggestion(key, keys));
  const auto layers = model.find("layers");
  if (layers == model.end() || !layers->is_array() || layers->empty())
    fail_with<std::invalid_argument>("{}: expected a list 'layers' of at least one layer{}", name,
                                     layers == model.end() ? "" : fmt::format(", not {}", shown(*layers)));
  return *layers;
}

/// Whether the last layer is the output: a dense layer without an activation, or without a number of units.
bool ends_with_output(const layer_stack& layers) {
  const auto* last = std::get_if<dense_layer>(&layers.back());
  return last != nullptr && (!last->units || last->how == activation::none);
}

} // namespace

std::string text_of_model_file(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) fail_with<std::invalid_argument>("{} cannot be read", name_of(file));
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

layer_stack read_model_file(const std::filesystem::path& file) {
  return parse_model_file(text_of_model_file(file), name_of(file));
}

layer_stack parse_model_file(std::string_view text, const std::string& name) {
  const json model = parse(text, name);
  layer_stack layers;
  for (const json& entry : list_of_layers(model, name))
    layers.push_back(read_layer(fmt::format("{}, layer {}", name, layers.size() + 1), entry));
  if (!ends_with_output(layers)) layers.emplace_back(dense_layer{});
  return layers;
}

} // namespace mailgrad
