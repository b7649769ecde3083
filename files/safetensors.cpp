#include <mailgrad/files/safetensors.hpp>

#include <mailgrad/files/file_error.hpp>
#include <mailgrad/files/little_endian.hpp>
#include <mailgrad/files/replaced_file.hpp>
#include <mailgrad/files/safetensors_header.hpp>
#include <mailgrad/tensor/small_floats.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <stdexcept>

namespace mailgrad {

static_assert(std::endian::native == std::endian::little,
              "numbers are read and written as they lie in memory");

namespace {

constexpr std::size_t length_bytes = 8;
constexpr std::string_view metadata_name = "__metadata__";

/// Bytes that are converted at a time.
constexpr std::size_t piece_of_array = std::size_t{1} << 16;

std::size_t bytes_of(stored_number n) {
  switch (n) {
  case stored_number::f64:
    return 8;
  case stored_number::f32:
    return 4;
  default:
    return 2;
  }
}

/// Converts numbers of `width` bytes each. Returns the index of the first that float32 cannot hold.
template <class Narrow>
std::size_t convert(std::string_view bytes, std::size_t width, std::span<float> to, Narrow&& narrow) {
  for (std::size_t i = 0; i < to.size(); ++i)
    if (!narrow(bytes.data() + i * width, to[i])) return i;
  return to.size();
}

bool narrow_f64(const char* from, float& to) {
  double wide = 0;
  std::memcpy(&wide, from, sizeof wide);
  to = static_cast<float>(wide);
  return std::isfinite(to) || !std::isfinite(wide);
}

template <float (*Widen)(std::uint16_t)>
bool widen(const char* from, float& to) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, from, sizeof bits);
  to = Widen(bits);
  return true;
}

std::size_t convert(stored_number n, std::string_view bytes, std::span<float> to) {
  switch (n) {
  case stored_number::f64:
    return convert(bytes, 8, to, narrow_f64);
  case stored_number::f16:
    return convert(bytes, 2, to, widen<float_of_half>);
  default:
    return convert(bytes, 2, to, widen<float_of_bfloat16>);
  }
}

} // namespace

namespace {

bool is_of_text(char c) { return (c >= ' ' && c <= '~') || c == '\n' || c == '\r' || c == '\t'; }

} // namespace

safetensors_file::safetensors_file(const std::filesystem::path& path) : path_(path) {
  errno = 0;
  file_.open(path, std::ios::binary);
  if (!file_) throw_unreadable(path, errno != 0 ? errno : EIO);
  read_header();
}

void safetensors_file::read_header() {
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
  const std::size_t width = bytes_of(what.numbers);
  std::string bytes(std::min(piece_of_array, to.size() * width), '\0');
  for (std::size_t first = 0; first < to.size(); first += piece_of_array / width) {
    const std::span<float> part = to.subspan(first, std::min(piece_of_array / width, to.size() - first));
    take(bytes.data(), part.size() * width);
    if (const std::size_t done = convert(what.numbers, bytes, part); done < part.size())
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

} // namespace mailgrad
