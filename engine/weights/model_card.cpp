#include <mailgrad/engine/weights/model_card.hpp>

#include <mailgrad/data/data_source.hpp>
#include <mailgrad/engine/model/data_request.hpp>
#include <mailgrad/files/text.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <utility>

namespace mailgrad {

namespace {

using json = nlohmann::ordered_json;

constexpr std::uint64_t edition = 1;

constexpr std::string_view of_classes = "classes", of_numbers = "numbers";
constexpr std::string_view of_tokens = "tokens";
constexpr const char* first_column = "first_column";

[[noreturn]] void fail(const std::string& what) { throw std::invalid_argument("model card: " + what); }

const json& field(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) fail(fmt::format("there is no field '{}'", name));
  return *found;
}

std::string shown(const json& found) {
  constexpr std::size_t most = 60;
  std::string text = found.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > most) text.replace(most, std::string::npos, "...");
  return text;
}

std::string text_in(const json& object, const char* name) {
  const json& found = field(object, name);
  if (!found.is_string()) fail(fmt::format("'{}' must be a text, not {}", name, shown(found)));
  return found.get<std::string>();
}

std::size_t count_in(const json& found, const char* name) {
  constexpr std::uint64_t most = std::numeric_limits<std::int32_t>::max(); // classes and extents have 31 bits
  if (!found.is_number_unsigned() || found.get<std::uint64_t>() > most)
    fail(fmt::format("'{}' must be whole numbers up to {}, not {}", name, most, shown(found)));
  return found.get<std::size_t>();
}

std::vector<std::size_t> counts_in(const json& object, const char* name) {
  const json& list = field(object, name);
  if (!list.is_array()) fail(fmt::format("'{}' must be a list, not {}", name, shown(list)));
  std::vector<std::size_t> counts;
  for (const json& each : list) counts.push_back(count_in(each, name));
  return counts;
}

shape shape_in(const json& object, const char* name) {
  const std::vector<std::size_t> extents = counts_in(object, name);
  try {
    return shape(extents);
  } catch (const std::exception& e) {
    fail(fmt::format("'{}': {}", name, e.what()));
  }
}

/// One of two words.
bool is_first(const json& object, const char* name, std::string_view first, std::string_view second) {
  const std::string found = text_in(object, name);
  if (found != first && found != second)
    fail(fmt::format("'{}' is '{}' or '{}', not {}", name, first, second, shown(found)));
  return found == first;
}

std::vector<std::string> texts_in(const json& object, const char* name) {
  const json& list = field(object, name);
  if (!list.is_array()) fail(fmt::format("'{}' must be a list, not {}", name, shown(list)));
  std::vector<std::string> texts;
  for (const json& each : list) {
    if (!each.is_string()) fail(fmt::format("'{}' must be texts, not {}", name, shown(each)));
    texts.push_back(each.get<std::string>());
  }
  return texts;
}

std::vector<float> numbers_in(const json& object, const char* name) {
  const json& list = field(object, name);
  if (!list.is_array()) fail(fmt::format("'{}' must be a list, not {}", name, shown(list)));
  std::vector<float> numbers;
  for (const json& each : list) {
    if (!each.is_number() || !std::isfinite(each.get<float>()))
      fail(fmt::format("'{}' must be finite numbers, not {}", name, shown(each)));
    numbers.push_back(each.get<float>());
  }
  return numbers;
}

std::vector<float> divisors_in(const json& object, const char* name) {
  std::vector<float> numbers = numbers_in(object, name);
  if (std::ranges::find(numbers, 0.0F) != numbers.end())
    fail(fmt::format("'{}' must be finite numbers other than 0", name));
  return numbers;
}

constexpr std::array<std::string_view, 4> column_kinds{"unknown", "number", "category", "left out"};
constexpr std::array<std::string_view, 3> missing_kinds{"refuse", "drop", "mean"};

/// The number of the word among `words`.
template <std::size_t N>
std::size_t one_of_words(const json& object, const char* name, const std::array<std::string_view, N>& words) {
  const std::string found = text_in(object, name);
  const auto at = std::ranges::find(words, found);
  if (at == words.end()) fail(fmt::format("'{}' is '{}', which is none of its words", name, found));
  return static_cast<std::size_t>(at - words.begin());
}

/// How numbers are written. Only what differs from "1234.5" is told.
number_signs signs_in(const json& object, const char* decimal, const char* thousands) {
  number_signs signs;
  if (object.contains(decimal)) signs.decimal = is_first(object, decimal, ",", ".") ? ',' : '.';
  if (object.contains(thousands)) signs.grouped = is_first(object, thousands, "yes", "no");
  return signs;
}

void tell_signs(json& object, number_signs signs, const char* decimal, const char* thousands) {
  if (signs.decimal != '.') object[decimal] = std::string(1, signs.decimal);
  if (signs.grouped) object[thousands] = "yes";
}

table_column column_in(const json& object) {
  if (!object.is_object()) fail("'columns' must be objects, not " + shown(object));
  table_column c{text_in(object, "name"),
                 static_cast<column_kind>(one_of_words(object, "kind", column_kinds)),
                 texts_in(object, "categories")};
  c.signs = signs_in(object, "decimal", "thousands");
  if ((c.kind == column_kind::category) == c.categories.empty())
    fail(fmt::format("column '{}' has {} categories", c.name, c.categories.size()));
  return c;
}

/// The table, which only models of CSV files have.
table_layout table_in(const json& card, std::size_t sample) {
  const auto found = card.find("table");
  if (found == card.end()) return {};
  if (!found->is_object()) fail("'table' must be an object, not " + shown(*found));
  table_layout t;
  const json& columns = field(*found, "columns");
  if (!columns.is_array() || columns.empty()) fail("'columns' must be a list, not " + shown(columns));
  for (const json& each : columns) t.columns.push_back(column_in(each));
  t.label = count_in(field(*found, "label"), "label");
  t.missing = static_cast<missing_values>(one_of_words(*found, "missing", missing_kinds));
  t.means = numbers_in(*found, "means");
  t.label_signs = signs_in(*found, "label_decimal", "label_thousands");
  if (found->contains("label_name")) t.label_name = text_in(*found, "label_name");
  if (t.label > t.columns.size())
    fail(fmt::format("the label is column {} of {}", t.label, t.columns.size() + 1));
  if (t.width() != sample || t.means.size() != (t.missing == missing_values::mean ? sample : 0))
    fail(fmt::format("its table makes {} numbers with {} means, where a sample has {}", t.width(),
                     t.means.size(), sample));
  return t;
}

bool is_zero(const json& card) {
  const std::size_t first = count_in(card[first_column], first_column);
  if (first > 1) fail(fmt::format("'{}' must be 0 or 1, not {}", first_column, first));
  return first == 0;
}

std::vector<input_request> inputs_in(const json& object) {
  const json& list = field(object, "inputs");
  if (!list.is_array()) fail("'inputs' must be a list, not " + shown(list));
  std::vector<input_request> inputs;
  for (const json& each : list) {
    if (!each.is_object()) fail("'inputs' must be objects, not " + shown(each));
    const dtype type = is_first(each, "type", "float32", "int32") ? dtype::float32 : dtype::int32;
    inputs.push_back({text_in(each, "name"), {shape_in(each, "shape"), type}});
  }
  return inputs;
}

json list_of(const shape& s) { return std::vector<std::size_t>(s.begin(), s.end()); }

json list_of(const std::vector<input_request>& inputs) {
  json list = json::array();
  for (const input_request& i : inputs)
    list.push_back({{"name", i.name},
                    {"type", i.sample.type == dtype::float32 ? "float32" : "int32"},
                    {"shape", list_of(i.sample.dims)}});
  return list;
}

json object_of(const table_layout& t) {
  json columns = json::array();
  for (const table_column& c : t.columns) {
    columns.push_back({{"name", c.name},
                       {"kind", column_kinds[static_cast<std::size_t>(c.kind)]},
                       {"categories", c.categories}});
    tell_signs(columns.back(), c.signs, "decimal", "thousands");
  }
  json table = {{"columns", std::move(columns)},
                {"label", t.label},
                {"missing", missing_kinds[static_cast<std::size_t>(t.missing)]},
                {"means", t.means}};
  tell_signs(table, t.label_signs, "label_decimal", "label_thousands");
  if (!t.label_name.empty()) table["label_name"] = t.label_name;
  return table;
}

} // namespace

model_card card_for(std::string model, const data_split& data) {
  const bool counts_from_zero = data.source && data.source->options.numbering == column_numbering::from_zero;
  return {std::move(model), request_for(data, 1), data.class_names,
          data.divisors,    data.table,           counts_from_zero};
}

std::string to_json(const model_card& card) {
  const model_request& r = card.request;
  json object = {
      {"edition", edition},
      {"model", card.model},
      {"answer", r.wanted == answer::a_class ? of_classes : of_numbers},
      {"features", r.features == feature_kind::tokens ? of_tokens : of_numbers},
      {"sample", list_of(r.sample_dims)},
      {"sparse", r.nonzeros > 0},
      {"categories", r.categories},
      {"inputs", list_of(r.inputs)},
      {"target", list_of(r.target_dims)},
      {"classes", r.classes},
      {"class_names", card.class_names},
      {"divisors", card.divisors},
  };
  if (!card.table.columns.empty()) object["table"] = object_of(card.table);
  if (card.counts_from_zero) object[first_column] = 0;
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

model_card parse_model_card(std::string_view text) {
  if (is_too_deep(text)) fail("lists and objects stand within each other too deep");
  const json object = json::parse(whole_json(text), nullptr, false);
  if (!object.is_object()) fail("expected a JSON object");
  if (const json& found = field(object, "edition"); found != edition)
    fail(fmt::format("edition {} is unknown; this program knows {}", shown(found), edition));
  model_card card;
  card.model = text_in(object, "model");
  model_request& r = card.request;
  r.wanted = is_first(object, "answer", of_classes, of_numbers) ? answer::a_class : answer::a_number;
  r.features =
      is_first(object, "features", of_tokens, of_numbers) ? feature_kind::tokens : feature_kind::numbers;
  r.sample_dims = shape_in(object, "sample");
  const json& sparse = field(object, "sparse");
  if (!sparse.is_boolean()) fail("'sparse' must be true or false, not " + shown(sparse));
  r.nonzeros = sparse.get<bool>() ? 1 : 0;
  r.categories = counts_in(object, "categories");
  r.inputs = inputs_in(object);
  r.target_dims = shape_in(object, "target");
  r.classes = count_in(field(object, "classes"), "classes");
  card.class_names = texts_in(object, "class_names");
  if (!card.class_names.empty() && card.class_names.size() != r.classes)
    fail(fmt::format("{} class names for {} classes", card.class_names.size(), r.classes));
  card.divisors = divisors_in(object, "divisors");
  card.table = table_in(object, r.sample_dims.size());
  card.counts_from_zero = object.contains(first_column) && is_zero(object);
  return card;
}

} // namespace mailgrad
