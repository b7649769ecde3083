#include <mailgrad/graph/models/model_file.hpp>

#include <mailgrad/tensor/nearest_name.hpp>

#include <nlohmann/json.hpp>

#include <array>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace mailgrad {

namespace {

using nlohmann::json;

constexpr std::size_t largest_extent = 1 << 20; ///< of units, filters, windows: beyond this a typing error

/// The settings of one layer of the file; each is taken by its name, and none may be left over.
class settings {
public:
  settings(std::string where, const json& object) : where_(std::move(where)), object_(object) {
    if (!object.is_object()) fail("settings must be an object, not " + object.dump());
  }

  [[noreturn]] void fail(const std::string& what) const { throw std::invalid_argument(where_ + ": " + what); }

  const json* take(std::string_view name) {
    known_.push_back(name);
    const auto found = object_.find(std::string(name));
    return found == object_.end() ? nullptr : &*found;
  }

  std::size_t extent(std::string_view name, std::optional<std::size_t> otherwise) {
    const json* found = take(name);
    if (!found && otherwise) return *otherwise;
    if (!found) fail("'" + std::string(name) + "' is missing");
    if (!found->is_number_unsigned() || *found == 0 || *found > largest_extent)
      fail("'" + std::string(name) + "' must be a whole number from 1 to " + std::to_string(largest_extent) +
           ", not " + found->dump());
    return found->get<std::size_t>();
  }

  /// One of several words, by its place in `names`.
  template <std::size_t n>
  std::size_t choice(std::string_view name, const std::array<std::string_view, n>& names,
                     std::size_t otherwise) {
    const json* found = take(name);
    if (!found) return otherwise;
    const auto word = found->is_string() ? found->get<std::string>() : found->dump();
    for (std::size_t i = 0; i < n; ++i)
      if (names[i] == word) return i;
    fail("'" + std::string(name) + "' cannot be '" + word + "'; did you mean '" +
         std::string(nearest_name(word, names)) + "'?");
  }

  void require_nothing_left() const {
    for (const auto& [key, unused] : object_.items()) {
      if (std::ranges::find(known_, key) != known_.end()) continue;
      fail("there is no setting '" + key + "'" +
           (known_.empty() ? "" : "; did you mean '" + std::string(nearest_name(key, known_)) + "'?"));
    }
  }

private:
  std::string where_;
  const json& object_;
  std::vector<std::string_view> known_;
};

activation take_activation(settings& s) {
  static constexpr std::array<std::string_view, 5> names{"none", "relu", "gelu", "tanh", "sigmoid"};
  return static_cast<activation>(s.choice("activation", names, 0));
}

layer read_dense(settings& s) {
  dense_layer l;
  const json* units = s.take("units");
  if (units && *units != "classes") l.units = s.extent("units", {});
  l.how = take_activation(s);
  return l;
}

layer read_conv(settings& s) {
  static constexpr std::array<std::string_view, 2> paddings{"same", "valid"};
  conv_layer l;
  l.filters = s.extent("filters", {});
  const std::size_t size = s.extent("size", 3);
  const std::size_t stride = s.extent("stride", 1);
  l.options = {{size, size}, {stride, stride}, padding::same(), take_activation(s)};
  if (s.choice("padding", paddings, 0) == 1) l.options.pad = padding::valid();
  return l;
}

layer read_pool(settings& s, pool_layer::rule how) {
  const std::size_t size = s.extent("size", 2);
  return pool_layer{how, size, s.extent("stride", size)};
}

layer read_dropout(settings& s) {
  dropout_layer l;
  const json* rate = s.take("rate");
  if (!rate) return l;
  if (!rate->is_number() || *rate < 0 || *rate >= 1)
    s.fail("'rate' must be at least 0 and less than 1, not " + rate->dump());
  l.rate = rate->get<float>();
  return l;
}

layer read_kind(const std::string& kind, settings& s) {
  static constexpr std::array<std::string_view, 7> kinds{"dense",   "conv",    "max_pool",  "average_pool",
                                                         "flatten", "dropout", "layer_norm"};
  if (kind == "dense") return read_dense(s);
  if (kind == "conv") return read_conv(s);
  if (kind == "max_pool") return read_pool(s, pool_layer::rule::largest);
  if (kind == "average_pool") return read_pool(s, pool_layer::rule::mean);
  if (kind == "flatten") return flatten_layer{};
  if (kind == "dropout") return read_dropout(s);
  if (kind == "layer_norm") return layer_norm_layer{};
  s.fail("there is no layer '" + kind + "'; did you mean '" + std::string(nearest_name(kind, kinds)) + "'?");
}

layer read_layer(const std::string& where, const json& entry) {
  if (!entry.is_object() || entry.size() != 1)
    throw std::invalid_argument(
        where + ": a layer is an object with one key, its kind, such as {\"dense\": {}}, not " +
        entry.dump());
  const auto& [kind, object] = *entry.items().begin();
  settings s(where + " (" + kind + ")", object);
  layer l = read_kind(kind, s);
  s.require_nothing_left();
  return l;
}

json parse(const std::filesystem::path& file) {
  std::ifstream stream(file);
  if (!stream) throw std::invalid_argument("model file '" + file.string() + "' cannot be read");
  try {
    return json::parse(stream);
  } catch (const json::exception& e) {
    throw std::invalid_argument("model file '" + file.string() + "': " + e.what());
  }
}

} // namespace

layer_stack read_model_file(const std::filesystem::path& file) {
  const json model = parse(file);
  if (!model.is_object() || !model.contains("layers") || !model["layers"].is_array() ||
      model["layers"].empty())
    throw std::invalid_argument("model file '" + file.string() +
                                "': expected an object with a list \"layers\" of at least one layer");
  layer_stack layers;
  for (const json& entry : model["layers"])
    layers.push_back(
        read_layer("model file '" + file.string() + "', layer " + std::to_string(layers.size() + 1), entry));
  return layers;
}

} // namespace mailgrad
