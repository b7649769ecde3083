#include <mailgrad/files/byte_archive.hpp>
#include <mailgrad/files/file_error.hpp>
#include <mailgrad/files/npy_file.hpp>
#include <mailgrad/files/safetensors.hpp>
#include <mailgrad/tensor/small_floats.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

namespace mailgrad {

static_assert(std::endian::native == std::endian::little,
              "numbers are read and written as they lie in memory");

namespace {

constexpr std::size_t length_bytes = 8;
constexpr std::string_view metadata_name = "__metadata__";

/// Bytes that are converted at a time.
constexpr std::size_t piece_of_array = std::size_t{1} << 16;

struct number_form {
  std::string_view name;
  std::size_t bytes;
  stored_number what;
};

using enum stored_number;
constexpr number_form forms[] = {
    {"F64", 8, f64},   {"F32", 4, f32},   {"F16", 2, f16},       {"BF16", 2, bf16},     {"I64", 8, other},
    {"U64", 8, other}, {"I32", 4, other}, {"U32", 4, other},     {"I16", 2, other},     {"U16", 2, other},
    {"I8", 1, other},  {"U8", 1, other},  {"F8_E4M3", 1, other}, {"F8_E5M2", 1, other}, {"BOOL", 1, other}};

/// Returns the index of the first that float32 cannot hold.
std::size_t convert(stored_number n, const char* bytes, std::span<float> to) {
  if (n != bf16) return convert_numbers(n == f64 ? npy_number::f64 : npy_number::f16, bytes, to);
  for (std::size_t i = 0; i < to.size(); ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes + i * sizeof bits, sizeof bits);
    to[i] = float_of_bfloat16(bits);
  }
  return to.size();
}

bool is_of_text(char c) { return (c >= ' ' && c <= '~') || c == '\n' || c == '\r' || c == '\t'; }

/// Takes the events of the parser, and stops at the first that a header cannot have. Nothing is nested deeper
/// than a header is, so a hostile one takes no more memory than its own length.
class header_reader : public nlohmann::json_sax<nlohmann::json> {
public:
  explicit header_reader(const std::filesystem::path& file) : file_(file) {}

  parsed_header result;

  bool start_object(std::size_t) override {
    if (place_ == place::begin) return enter(place::names);
    if (place_ == place::value) return enter(name_ == "__metadata__" ? place::texts : place::fields);
    return wrong("an object");
  }
  bool end_object() override {
    if (place_ == place::fields) finish_array();
    return enter(place_ == place::names ? place::end : place::names);
  }
  bool key(string_t& k) override {
    if (place_ == place::names) {
      if (!seen_.insert(k).second) refuse(fmt::format("array {} comes twice", in_quotes(k)));
      name_ = k;
      return enter(place::value);
    }
    key_ = k;
    if (place_ == place::texts) return enter(place::text);
    if (k == "dtype") return once(type_.has_value(), place::type);
    if (k == "shape") return once(extents_.has_value(), place::extents);
    if (k == "data_offsets") return once(offsets_.has_value(), place::offsets);
    refuse(fmt::format("array {} has a field {}, which the format does not have", in_quotes(name_),
                       in_quotes(k)));
  }
  bool string(string_t& s) override {
    if (place_ == place::text) {
      if (!result.metadata.emplace(key_, s).second)
        refuse(fmt::format("text {} comes twice", in_quotes(key_)));
      return enter(place::texts);
    }
    if (place_ != place::type) return wrong("a text");
    type_ = s;
    return enter(place::fields);
  }
  bool start_array(std::size_t) override {
    if (place_ == place::extents) {
      extents_.emplace();
      return enter(place::extent);
    }
    if (place_ != place::offsets) return wrong("a list");
    offsets_.emplace();
    return enter(place::offset);
  }
  bool end_array() override { return enter(place::fields); }
  bool number_unsigned(number_unsigned_t n) override {
    if (place_ == place::extent) {
      if (extents_->size() == shape::max_rank)
        refuse(fmt::format("array {} has more than {} axes", in_quotes(name_), shape::max_rank));
      extents_->push_back(n);
      return true;
    }
    if (place_ != place::offset) return wrong("a number");
    if (offsets_->size() == 2) refuse(fmt::format("array {} has more than two offsets", in_quotes(name_)));
    offsets_->push_back(n);
    return true;
  }
  bool null() override { return wrong("null"); }
  bool boolean(bool) override { return wrong("a truth value"); }
  bool number_integer(number_integer_t) override { return wrong("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { return wrong("a number with a fraction"); }
  bool binary(binary_t&) override { return wrong("bytes"); }
  bool parse_error(std::size_t at, const std::string&, const nlohmann::detail::exception&) override {
    throw_malformed(file_, file_offset{8 + at}, "the header is not valid JSON");
  }

private:
  enum class place { begin, names, value, texts, text, fields, type, extents, extent, offsets, offset, end };

  bool enter(place p) {
    place_ = p;
    return true;
  }
  bool once(bool before, place p) {
    if (before) refuse(fmt::format("field {} of array {} comes twice", in_quotes(key_), in_quotes(name_)));
    return enter(p);
  }
  [[noreturn]] void refuse(const std::string& why) const { throw_malformed(file_, why); }
  [[noreturn]] bool wrong(std::string_view found) const {
    if (place_ == place::begin) refuse(fmt::format("expected a header with names, found {}", found));
    const bool inside = place_ != place::value && !key_.empty();
    refuse(fmt::format("{}{}: found {} where the format has none", in_quotes(name_),
                       inside ? ", " + in_quotes(key_) : "", found));
  }

  void finish_array() {
    const std::string who = "array " + in_quotes(name_);
    if (!type_ || !extents_ || !offsets_ || offsets_->size() != 2)
      refuse(who + " lacks its dtype, its shape or its two data_offsets");
    const auto form = std::ranges::find(forms, *type_, &number_form::name);
    if (form == std::end(forms))
      refuse(fmt::format("{} has numbers of the unknown type {}", who, in_quotes(*type_)));
    stored_array a{name_, *type_, form->what, {}, (*offsets_)[0], (*offsets_)[1]};
    try {
      a.dims = shape(*extents_);
    } catch (const std::exception&) {
      refuse(who + " has more numbers than memory can hold");
    }
    if (a.end < a.begin || (a.end - a.begin) / form->bytes != a.dims.size() ||
        (a.end - a.begin) % form->bytes != 0)
      refuse(fmt::format("{} of shape {} and type {} cannot take the bytes from {} to {}", who,
                         to_string(a.dims), *type_, a.begin, a.end));
    result.arrays.push_back(std::move(a));
    type_.reset();
    extents_.reset();
    offsets_.reset();
    key_.clear();
  }

  const std::filesystem::path& file_;
  place place_ = place::begin;
  std::set<std::string, std::less<>> seen_;
  std::string name_;
  std::string key_;
  std::optional<std::string> type_;
  std::optional<std::vector<std::size_t>> extents_;
  std::optional<std::vector<std::uint64_t>> offsets_;
};

} // namespace

safetensors_file::safetensors_file(const std::filesystem::path& path) : path_(path) {
  errno = 0;
  file_.open(path, std::ios::binary);
  if (!file_) throw_unreadable(path, errno != 0 ? errno : EIO);
  file_.seekg(0, std::ios::end);
  const std::streamoff end = file_.tellg();
  if (end < 0) throw_unreadable(path_, EISDIR);
  const auto size = static_cast<std::uint64_t>(end);
  if (size < length_bytes)
    throw_malformed(path_, fmt::format("expected a safetensors file, found {} bytes", size));
  file_.seekg(0);
  std::string first(length_bytes, '\0');
  if (!file_.read(first.data(), length_bytes)) throw_unreadable(path_, EIO);
  const auto length = number_in<length_bytes>(first);
  if (length > size - length_bytes && std::ranges::all_of(first, is_of_text))
    throw_malformed(path_,
                    fmt::format("expected a safetensors file, as 'mailgrad train --save' writes it, found "
                                "one that begins with the text {}",
                                in_quotes(first)));
  if (length > size - length_bytes)
    throw_malformed(
        path_, file_offset{0},
        fmt::format("the header is said to have {} bytes, and {} follow", length, size - length_bytes));
  if (length > longest_header)
    throw_malformed(path_, file_offset{0},
                    fmt::format("the header is said to have {} bytes, and the format has at most {}", length,
                                longest_header));
  std::string header(length, '\0');
  if (!file_.read(header.data(), static_cast<std::streamsize>(length))) throw_unreadable(path_, EIO);
  data_begin_ = length_bytes + length;
  parsed_header parsed = parse_safetensors_header(path_, header, size - data_begin_);
  arrays_ = std::move(parsed.arrays);
  metadata_ = std::move(parsed.metadata);
}

const stored_array* safetensors_file::find(std::string_view name) const noexcept {
  const auto found = std::ranges::find(arrays_, name, &stored_array::name);
  return found == arrays_.end() ? nullptr : &*found;
}

void safetensors_file::read(const stored_array& what, std::span<float> to) {
  if (to.size() != what.dims.size())
    throw std::invalid_argument(
        fmt::format("safetensors: array '{}' has {} numbers, and there is room for {}", what.name,
                    what.dims.size(), to.size()));
  if (what.numbers == stored_number::other)
    throw_malformed(path_, fmt::format("array {} holds numbers of type {}; weights are F32, F64, F16 or BF16",
                                       in_quotes(what.name), in_quotes(what.type)));
  file_.clear();
  file_.seekg(static_cast<std::streamoff>(data_begin_ + what.begin));
  const auto take = [&](char* bytes, std::size_t count) {
    errno = 0;
    if (!file_.read(bytes, static_cast<std::streamsize>(count)))
      throw_unreadable(path_, errno != 0 ? errno : EIO);
  };
  if (what.numbers == stored_number::f32) return take(reinterpret_cast<char*>(to.data()), to.size_bytes());
  const std::size_t width = std::ranges::find(forms, what.numbers, &number_form::what)->bytes;
  std::string bytes(std::min(piece_of_array, to.size() * width), '\0');
  for (std::size_t first = 0; first < to.size(); first += piece_of_array / width) {
    const std::span<float> part = to.subspan(first, std::min(piece_of_array / width, to.size() - first));
    take(bytes.data(), part.size() * width);
    if (const std::size_t done = convert(what.numbers, bytes.data(), part); done < part.size())
      throw_malformed(path_, fmt::format("number {} of array {} is too large for float32", first + done,
                                         in_quotes(what.name)));
  }
}

void write_safetensors(const std::filesystem::path& path, std::span<const array_to_store> arrays,
                       const std::map<std::string, std::string>& metadata, replaced_file::if_link link) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[metadata_name] = metadata;
  std::uint64_t end = 0;
  for (const array_to_store& a : arrays) {
    if (a.name == metadata_name || header.contains(a.name))
      throw std::invalid_argument(fmt::format("safetensors: two arrays are called '{}'", a.name));
    if (a.values.size() != a.dims.size())
      throw std::invalid_argument(fmt::format("safetensors: array '{}' has {} numbers for a shape of {}",
                                              a.name, a.values.size(), to_string(a.dims)));
    const std::uint64_t begin = std::exchange(end, end + a.values.size_bytes());
    header[a.name] = {{"dtype", "F32"},
                      {"shape", std::vector(a.dims.begin(), a.dims.end())},
                      {"data_offsets", {begin, end}}};
  }
  std::string text = header.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  text.append((length_bytes - text.size() % length_bytes) % length_bytes, ' '); // so that numbers are aligned
  std::string length;
  append_number<length_bytes>(length, text.size());

  replaced_file out(path.string(), replaced_file::if_taken::wait, link);
  out << length << text;
  for (const array_to_store& a : arrays) out.write_ahead(std::as_bytes(a.values));
  if (const int why = out.keep_on_disk(); why != 0) throw_unwritable(path, why);
}

parsed_header parse_safetensors_header(const std::filesystem::path& file, std::string_view text,
                                       std::uint64_t data_bytes) {
  header_reader reader(file);
  if (const std::size_t end = text.find('\0'); end != std::string_view::npos) // of all, to the parser
    throw_malformed(file, file_offset{8 + end}, "the header is not valid JSON");
  nlohmann::json::sax_parse(text, &reader);
  std::vector<stored_array>& arrays = reader.result.arrays;
  std::ranges::stable_sort(arrays, {}, [](const stored_array& a) { return std::pair(a.begin, a.end); });
  std::uint64_t end = 0;
  for (const stored_array& a : arrays) {
    if (a.begin != end)
      throw_malformed(file,
                      fmt::format("array {} begins at byte {} of the numbers, where byte {} was expected",
                                  in_quotes(a.name), a.begin, end));
    end = a.end;
  }
  if (end != data_bytes)
    throw_malformed(file, fmt::format("the arrays take {} bytes, and the file has {}", end, data_bytes));
  return std::move(reader.result);
}

} // namespace mailgrad
