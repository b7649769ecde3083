#include <mailgrad/data/open.hpp>
#include <mailgrad/data/sample_array.hpp>
#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/engine/weights/weights_file.hpp>
#include <mailgrad/files/byte_archive.hpp>
#include <mailgrad/files/file_error.hpp>
#include <mailgrad/files/npz.hpp>
#include <mailgrad/files/safetensors.hpp>
#include <mailgrad/files/text.hpp>
#include <mailgrad/options/spelling.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <system_error>

namespace mailgrad {

namespace {

/// `resumed` is what is resumed to have the weights of `path`.
[[noreturn]] void refuse(const std::filesystem::path& path, const char* what,
                         const std::filesystem::path& resumed) {
  throw_malformed(path,
                  fmt::format("expected a file of weights, found {}; 'mailgrad train --resume {} --steps "
                              "1 --save weights.safetensors' writes such a file without further training",
                              what, shell_word(resumed.string())));
}

/// Its first bytes, at most 256.
std::string beginning_of(const std::filesystem::path& path) {
  std::string bytes(256, '\0');
  std::ifstream file(path, std::ios::binary);
  bytes.resize(static_cast<std::size_t>(file.read(bytes.data(), std::ssize(bytes)).gcount()));
  return bytes;
}

/// A message of protobuf whose first field is a version of ONNX, the next the producer, graph or operators.
bool is_onnx(std::string_view first) {
  constexpr std::string_view next_fields = "\x12\x3a\x42";
  return first.size() > 2 && first[0] == '\x08' && first[1] > 0 && first[1] < 32 &&
         next_fields.find(first[2]) != next_fields.npos;
}

/// A zip archive whose first entry is "NAME/data.pkl", as torch.save() writes it, or an older pickle alone.
bool is_pickle(std::string_view first) {
  constexpr std::size_t name_begins = 30, length_at = 26;
  if (first.starts_with("\x80\x02") || first.starts_with("\x80\x04")) return true;
  if (!first.starts_with("PK\3\4") || first.size() < name_begins) return false;
  const std::size_t length = number_in<2>(first.substr(length_at));
  return first.substr(name_begins, length).ends_with("/data.pkl");
}

/// Whether what a safetensors file begins with, the length of its header, can be.
bool may_be_safetensors(std::string_view first, std::uint64_t size) {
  constexpr std::size_t length_bytes = 8;
  return size >= length_bytes && first.size() >= length_bytes &&
         number_in<length_bytes>(first) <= size - length_bytes;
}

[[noreturn]] void refuse(const std::filesystem::path& path, std::string_view what) {
  throw_malformed(path, fmt::format("expected a file of weights, found {}", what));
}

constexpr std::string_view recording_begins = "mgradrec";

/// What a file is that begins so and is no safetensors file, and what may be done with it.
std::string kind_by_beginning(const std::filesystem::path& path, std::string_view first) {
  const std::string name = shell_word(path.string());
  if (is_onnx(first))
    return "a model of ONNX; 'mailgrad train --load' begins a run with the weights that it is of";
  if (is_pickle(first)) return "a pickle of PyTorch, which holds no run";
  if (first.starts_with(recording_begins))
    return fmt::format("a recording; 'mailgrad replay {}' repeats its run", name);
  const std::size_t text = first.find_first_not_of(" \t\r\n");
  if (text != first.npos && (first[text] == '{' || first[text] == '['))
    return "a text in JSON, such as a report or a model";
  const auto is_of_text = [](unsigned char c) { return (c >= ' ' && c != 0x7f) || (c >= '\t' && c <= '\r'); };
  return std::ranges::all_of(first, is_of_text) ? "a text" : "";
}

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

/// What `read` makes of each entry of a list.
template <class Read>
auto list_in(const json& object, const char* name, Read read) {
  const json& list = field(object, name);
  if (!list.is_array()) fail(fmt::format("'{}' must be a list, not {}", name, shown(list)));
  std::vector<decltype(read(list))> all;
  for (const json& each : list) all.push_back(read(each));
  return all;
}

std::vector<std::size_t> counts_in(const json& object, const char* name) {
  return list_in(object, name, [&](const json& each) { return count_in(each, name); });
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
  return list_in(object, name, [&](const json& each) {
    if (!each.is_string()) fail(fmt::format("'{}' must be texts, not {}", name, shown(each)));
    return each.get<std::string>();
  });
}

std::vector<float> numbers_in(const json& object, const char* name) {
  return list_in(object, name, [&](const json& each) {
    if (!each.is_number() || !std::isfinite(each.get<float>()))
      fail(fmt::format("'{}' must be finite numbers, not {}", name, shown(each)));
    return each.get<float>();
  });
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
  return list_in(object, "inputs", [](const json& each) {
    if (!each.is_object()) fail("'inputs' must be objects, not " + shown(each));
    const dtype type = is_first(each, "type", "float32", "int32") ? dtype::float32 : dtype::int32;
    return input_request{text_in(each, "name"), {shape_in(each, "shape"), type}};
  });
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

constexpr const char* report_key = "report";
// An archive of numpy has one table of names, so these must not be those of a variable.
constexpr const char* card_entry = "__mailgrad__";
constexpr const char* report_entry = "__report__";

void require_length(std::span<const float> parameters, const parameter_layout& layout) {
  if (parameters.size() != layout.size())
    throw std::invalid_argument(
        fmt::format("weights: {} numbers, where the layout has {}", parameters.size(), layout.size()));
}

/// What keeps `v` from taking its values from `found`; empty: nothing.
std::string difference(const placed_variable& v, const saved_weights::variable* found) {
  if (!found) return fmt::format("variable '{}' is not in the file", v.name);
  if (found->values.dims() == v.dims) return {};
  return fmt::format("variable '{}' is {} in the file, and {} in the model", v.name,
                     to_string(found->values.dims()), to_string(v.dims));
}

model_card card_in(const std::filesystem::path& path, const std::string& text) {
  try {
    return parse_model_card(text);
  } catch (const std::invalid_argument& e) {
    throw_malformed(path, e.what());
  }
}

/// A text that is kept as an array of bytes; empty if there is none.
std::string entry_text(const std::filesystem::path& path, npz_file& file, std::string_view name) {
  const npz_array* const found = file.find(name);
  if (found == nullptr) return {};
  if (found->header.numbers != npy_number::u8 || found->header.dims.rank() != 1)
    throw_malformed(path, fmt::format("array '{}' is not a text of bytes", name));
  std::vector<std::uint8_t> bytes(found->header.dims.size());
  file.read(*found, bytes);
  return {bytes.begin(), bytes.end()};
}

/// Weights that are not finite would spoil every answer without a word.
void require_finite_weights(const std::filesystem::path& path, const std::string& name,
                            std::span<const float> values) {
  if (const auto at = first_not_finite(values))
    throw_malformed(path, fmt::format("array {}: number {} is {}; weights must be finite", in_quotes(name),
                                      *at, values[*at]));
}

bool is_weight(npy_number n) { return n == npy_number::f64 || n == npy_number::f32 || n == npy_number::f16; }

saved_weights load_npz(const std::filesystem::path& path) {
  npz_file file(path);
  saved_weights all{path.string(), {}};
  if (file.find(card_entry) != nullptr) all.card = card_in(path, entry_text(path, file, card_entry));
  all.report = entry_text(path, file, report_entry);
  for (const npz_array& a : file.arrays()) {
    if (a.name == card_entry || a.name == report_entry) continue;
    if (!is_weight(a.header.numbers)) {
      all.others.push_back(
          fmt::format("array {} holds whole numbers; weights are floats", in_quotes(a.name)));
      continue;
    }
    tensor values = tensor::for_overwrite(a.header.dims);
    file.read(a, values.values());
    require_finite_weights(path, a.name, values.values());
    all.variables.push_back({a.name, std::move(values)});
  }
  return all;
}

} // namespace

void require_may_be_checkpoint(const std::filesystem::path& path) {
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(path, unknown)) return;
  const std::uint64_t size = std::filesystem::file_size(path, unknown);
  if (unknown) return;
  const std::string first = beginning_of(path);
  if (first.empty() && size > 0) return; // who reads it says why that cannot be done
  const std::string found = size == 0 ? "an empty file" : kind_by_beginning(path, first);
  if (found.empty() || may_be_safetensors(first, size)) return;
  throw_malformed(path, fmt::format("expected a checkpoint, found {}; --resume takes the folder that "
                                    "--checkpoint named, or a file in it",
                                    found));
}

void require_no_foreign_file(const std::filesystem::path& path) {
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown)) refuse(path, "a folder; name a file in it");
  if (!std::filesystem::is_regular_file(path, unknown)) return;
  const std::uint64_t size = std::filesystem::file_size(path, unknown);
  if (unknown) return;
  if (size == 0) refuse(path, "an empty file; name one that 'mailgrad train --save' wrote");
  const std::string first = beginning_of(path);
  if (may_be_safetensors(first, size)) return;
  if (is_onnx(first)) refuse(path, "a model of ONNX; name the file of weights that it was exported from");
  if (is_pickle(first))
    refuse(path, "a pickle of PyTorch; write its weights by safetensors.torch.save_file() in Python, and "
                 "name that file");
}

kind_of_file kind_of(const std::map<std::string, std::string>& texts) {
  if (texts.contains(card_key)) return kind_of_file::weights;
  const auto format = texts.find(checkpoint_format_key);
  if (format == texts.end() || format->second != checkpoint_format) return kind_of_file::other;
  return texts.contains(best_weights_part) ? kind_of_file::best_weights : kind_of_file::checkpoint;
}

void require_no_checkpoints_in(const std::filesystem::path& path) {
  std::error_code wrong;
  for (std::filesystem::directory_iterator file(path, wrong), end; !wrong && file != end;
       file.increment(wrong)) {
    const std::string name = file->path().filename().string();
    if (name.starts_with(checkpoint_prefix) && name.ends_with(checkpoint_suffix))
      refuse(path, "a folder of checkpoints", path);
  }
}

void require_no_checkpoint(const std::filesystem::path& path,
                           const std::map<std::string, std::string>& texts) {
  const kind_of_file kind = kind_of(texts);
  if (kind == kind_of_file::checkpoint) refuse(path, "a checkpoint", path);
  if (kind == kind_of_file::best_weights)
    refuse(path, "the best weights that a run keeps beside its checkpoints",
           path.has_parent_path() ? path.parent_path() : ".");
}

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

std::vector<named_weights> weights_by_name(const parameter_layout& layout,
                                           std::span<const float> parameters) {
  require_length(parameters, layout);
  std::vector<named_weights> all;
  for (const placed_variable& v : layout.variables())
    all.push_back({v.name, v.dims, parameters.subspan(v.offset, v.dims.size())});
  return all;
}

const saved_weights::variable* saved_weights::find(std::string_view name) const noexcept {
  const auto found = std::ranges::find(variables, name, &variable::name);
  return found == variables.end() ? nullptr : &*found;
}

void save_weights(const std::filesystem::path& path, std::span<const named_weights> weights,
                  const model_card& card, const std::string& report) {
  std::vector<array_to_store> arrays;
  for (const named_weights& w : weights) arrays.push_back({w.name, w.dims, w.values});
  if (path.extension() == ".npz") {
    std::map<std::string, std::string> entries{{card_entry, to_json(card)}};
    if (!report.empty()) entries.emplace(report_entry, report);
    return write_npz(path, arrays, entries);
  }
  std::map<std::string, std::string> texts{{card_key, to_json(card)}};
  if (!report.empty()) texts.emplace(report_key, report);
  write_safetensors(path, arrays, texts);
}

/// Each variable also has a few words about it, and the card's quotes are written with a backslash.
std::uint64_t bytes_to_save(const parameter_layout& layout, const model_card& card) {
  constexpr std::uint64_t report = std::uint64_t{16} << 10, around = 1024, words = 400;
  const std::string text = to_json(card);
  std::uint64_t bytes =
      report + around + text.size() + static_cast<std::uint64_t>(std::ranges::count(text, '"'));
  for (const placed_variable& v : layout.variables())
    bytes += v.dims.size() * sizeof(float) + 3 * v.name.size() + words;
  return bytes;
}

saved_weights load_weights(const std::filesystem::path& path) {
  require_no_checkpoints_in(path);
  require_no_foreign_file(path);
  if (npz_file::is_npz(path)) return load_npz(path);
  safetensors_file file(path);
  require_no_checkpoint(path, file.metadata());
  saved_weights all{path.string(), {}};
  if (const auto card = file.metadata().find(card_key); card != file.metadata().end())
    all.card = card_in(path, card->second);
  if (const auto report = file.metadata().find(report_key); report != file.metadata().end())
    all.report = report->second;
  for (const stored_array& a : file.arrays()) {
    if (a.numbers == stored_number::other) {
      all.others.push_back(fmt::format("array {} holds numbers of type {}; weights are F32, F64, F16 or BF16",
                                       in_quotes(a.name), in_quotes(a.type)));
      continue;
    }
    tensor values = tensor::for_overwrite(a.dims);
    file.read(a, values.values());
    require_finite_weights(path, a.name, values.values());
    all.variables.push_back({a.name, std::move(values)});
  }
  return all;
}

const model_card& card_of(const saved_weights& trained) {
  if (!trained.card)
    throw std::invalid_argument(
        fmt::format("weights of '{}' tell nothing of their model; another program wrote them", trained.file));
  return *trained.card;
}

model_function model_of(const saved_weights& trained) {
  const std::string& text = card_of(trained).model;
  if (text.empty())
    throw std::invalid_argument(fmt::format(
        "weights of '{}' are those of a program's own model function; the program has to bring it",
        trained.file));
  return find_model(text);
}

weights_fit fit(const saved_weights& from, const parameter_layout& layout, std::vector<float> first) {
  require_length(first, layout);
  weights_fit result{std::move(first), {}, {}};
  for (const placed_variable& v : layout.variables()) {
    const saved_weights::variable* const found = from.find(v.name);
    if (std::string why = difference(v, found); !why.empty()) {
      result.differences.push_back(std::move(why));
      continue;
    }
    std::ranges::copy(found->values.values(),
                      result.parameters.begin() + static_cast<std::ptrdiff_t>(v.offset));
    result.taken.push_back(v.name);
  }
  for (const saved_weights::variable& v : from.variables)
    if (std::ranges::find(layout.variables(), v.name, &placed_variable::name) == layout.variables().end())
      result.differences.push_back(fmt::format("array '{}' of the file is no variable of the model", v.name));
  result.differences.insert(result.differences.end(), from.others.begin(), from.others.end());
  return result;
}

void require_whole(const saved_weights& from, const weights_fit& found) {
  if (found.differences.empty()) return;
  const std::size_t more = found.differences.size() - 1;
  throw std::invalid_argument(
      fmt::format("weights of '{}': {}{}", from.file, found.differences.front(),
                  more == 0 ? "" : fmt::format("; {} more difference{}", more, more == 1 ? "" : "s")));
}

void require_some(const saved_weights& from, const weights_fit& found) {
  if (!found.taken.empty() || found.differences.empty()) return;
  throw std::invalid_argument(
      fmt::format("weights of '{}' fit no variable of the model, so nothing was loaded: {}", from.file,
                  found.differences.front()));
}

} // namespace mailgrad
