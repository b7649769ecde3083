#include <mailgrad/files/safetensors_header.hpp>

#include <mailgrad/files/file_error.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

namespace mailgrad {

namespace {

struct number_form {
  std::string_view name;
  std::size_t bytes;
  stored_number what;
};

constexpr auto forms = std::to_array<number_form>({{"F64", 8, stored_number::f64},
                                                   {"F32", 4, stored_number::f32},
                                                   {"F16", 2, stored_number::f16},
                                                   {"BF16", 2, stored_number::bf16},
                                                   {"I64", 8, stored_number::other},
                                                   {"U64", 8, stored_number::other},
                                                   {"I32", 4, stored_number::other},
                                                   {"U32", 4, stored_number::other},
                                                   {"I16", 2, stored_number::other},
                                                   {"U16", 2, stored_number::other},
                                                   {"I8", 1, stored_number::other},
                                                   {"U8", 1, stored_number::other},
                                                   {"F8_E4M3", 1, stored_number::other},
                                                   {"F8_E5M2", 1, stored_number::other},
                                                   {"BOOL", 1, stored_number::other}});

/// Takes the events of the parser, and stops at the first that a header cannot have. Nothing is nested deeper
/// than a header is, so a hostile one takes no more memory than its own length.
class header_reader : public nlohmann::json_sax<nlohmann::json> {
public:
  explicit header_reader(const std::filesystem::path& file) : file_(file) {}

  parsed_header result;

  bool start_object(std::size_t) override {
    if (place_ == place::begin) return enter(place::names);
    if (place_ == place::value_of_name) return enter(name_ == "__metadata__" ? place::texts : place::fields);
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
      return enter(place::value_of_name);
    }
    key_ = k;
    if (place_ == place::texts) return enter(place::text);
    if (k == "dtype") return once(type_.has_value(), place::type);
    if (k == "shape") return once(extents_.has_value(), place::shape_field);
    if (k == "data_offsets") return once(offsets_.has_value(), place::offsets_field);
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
    if (place_ == place::shape_field) {
      extents_.emplace();
      return enter(place::extent);
    }
    if (place_ != place::offsets_field) return wrong("a list");
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
  enum class place : std::uint8_t {
    begin,
    names,
    value_of_name,
    texts,
    text,
    fields,
    type,
    shape_field,
    extent,
    offsets_field,
    offset,
    end
  };

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
    const bool inside = place_ != place::value_of_name && !key_.empty();
    refuse(fmt::format("{}{}: found {} where the format has none", in_quotes(name_),
                       inside ? ", " + in_quotes(key_) : "", found));
  }

  void finish_array() {
    const std::string who = "array " + in_quotes(name_);
    if (!type_ || !extents_ || !offsets_ || offsets_->size() != 2)
      refuse(who + " lacks its dtype, its shape or its two data_offsets");
    const auto form = std::ranges::find(forms, *type_, &number_form::name);
    if (form == forms.end())
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
