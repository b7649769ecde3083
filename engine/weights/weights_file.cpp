#include <mailgrad/engine/weights/weights_file.hpp>

#include <mailgrad/data/sample_array.hpp>
#include <mailgrad/engine/weights/kind_of_file.hpp>
#include <mailgrad/files/file_error.hpp>
#include <mailgrad/files/npz.hpp>
#include <mailgrad/files/safetensors.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <utility>

namespace mailgrad {

namespace {

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

/// Each variable also has a few words about it, which either format writes, and the card's quotes are written
/// with a backslash.
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
