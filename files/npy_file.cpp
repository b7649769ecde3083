#include <mailgrad/files/npy_file.hpp>

#include <mailgrad/files/byte_archive.hpp>
#include <mailgrad/files/byte_source.hpp>
#include <mailgrad/files/file_error.hpp>
#include <mailgrad/tensor/small_floats.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

namespace mailgrad {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "numbers are read as they lie in memory");

namespace {

constexpr std::size_t alignment = 64;

struct number_name {
  std::string_view name; ///< without the order of bytes
  npy_number what;
  std::size_t bytes;
};

constexpr number_name number_names[] = {
    {"f8", npy_number::f64, 8}, {"f4", npy_number::f32, 4}, {"f2", npy_number::f16, 2},
    {"i8", npy_number::i64, 8}, {"i4", npy_number::i32, 4}, {"i2", npy_number::i16, 2},
    {"i1", npy_number::i8, 1},  {"u8", npy_number::u64, 8}, {"u4", npy_number::u32, 4},
    {"u2", npy_number::u16, 2}, {"u1", npy_number::u8, 1},  {"b1", npy_number::boolean, 1}};

/// Takes a literal of Python apart. Nothing in it is evaluated.
class literal_reader {
public:
  literal_reader(const std::filesystem::path& file, std::string_view who, std::string_view text)
      : file_(file), who_(who), rest_(text) {}

  [[noreturn]] void fail(std::string_view what) const {
    throw_malformed(file_, fmt::format("{}: {}", who_, what));
  }

  bool take(char c) {
    skip_blanks();
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void require(char c) {
    if (!take(c))
      fail(fmt::format("expected '{}' in the header, found {}", c, in_quotes(rest_.substr(0, 20))));
  }
  std::string_view text() {
    require('\'');
    const std::size_t end = rest_.find('\'');
    if (end == std::string_view::npos) fail("expected the end of a text in the header, found none");
    const std::string_view found = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return found;
  }
  bool truth() {
    skip_blanks();
    for (const std::string_view word : {"True", "False"})
      if (rest_.starts_with(word)) {
        rest_.remove_prefix(word.size());
        return word == "True";
      }
    fail(fmt::format("expected True or False in the header, found {}", in_quotes(rest_.substr(0, 20))));
  }
  std::vector<std::size_t> extents() {
    std::vector<std::size_t> all;
    require('(');
    while (!take(')')) {
      skip_blanks();
      std::size_t extent = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), extent);
      if (error != std::errc{})
        fail(fmt::format("expected an extent in the header, found {}", in_quotes(rest_.substr(0, 20))));
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      take('L'); // as Python 2 wrote it
      if (all.size() == shape::max_rank)
        fail(fmt::format("expected at most {} axes, found more", shape::max_rank));
      all.push_back(extent);
      if (!take(',')) {
        require(')');
        break;
      }
    }
    return all;
  }
  void require_end() {
    skip_blanks();
    if (!rest_.empty())
      fail(fmt::format("expected the end of the header, found {}", in_quotes(rest_.substr(0, 20))));
  }
  /// Whether a list begins: the fields of a record.
  bool begins_list() {
    skip_blanks();
    return rest_.starts_with('[') || rest_.starts_with('(');
  }

private:
  void skip_blanks() { rest_.remove_prefix(std::min(rest_.size(), rest_.find_first_not_of(" \n"))); }

  const std::filesystem::path& file_;
  std::string_view who_;
  std::string_view rest_;
};

struct number_type {
  npy_number numbers;
  bool is_big_endian;
};

number_type type_in(literal_reader& in) {
  if (in.begins_list()) in.fail("expected plain numbers, found records");
  const std::string_view type = in.text();
  if (type.find('O') != std::string_view::npos)
    in.fail("expected numbers, found Python objects, which would run code of the file");
  const std::string_view name = type.substr(type.empty() ? 0 : 1);
  const auto found = std::ranges::find(number_names, name, &number_name::name);
  if (found == std::end(number_names) || std::string_view("<>|").find(type.front()) == std::string_view::npos)
    in.fail(fmt::format("expected numbers or truth values, found type {}", in_quotes(type)));
  return {found->what, type.front() == '>'};
}

/// Stores `value` if `to` can hold it.
template <class From, class To>
bool store(From value, To& to) {
  if constexpr (std::is_floating_point_v<To>) {
    to = static_cast<To>(value);
    if constexpr (std::is_floating_point_v<From>) return std::isfinite(to) || !std::isfinite(value);
    return true;
  } else if constexpr (std::is_floating_point_v<From>) {
    const double beyond = std::ldexp(1.0, std::numeric_limits<To>::digits); // the largest one, and 1
    const bool fits = value >= static_cast<From>(std::numeric_limits<To>::min()) &&
                      static_cast<double>(value) < beyond && value == std::floor(value);
    if (fits) to = static_cast<To>(value);
    return fits;
  } else {
    if (!std::in_range<To>(value)) return false;
    to = static_cast<To>(value);
    return true;
  }
}

struct half {
  std::uint16_t bits = 0;
};

float value_of(half x) { return float_of_half(x.bits); }
template <class Number>
Number value_of(Number x) {
  return x;
}

/// Converts numbers of type `From`. Returns the index of the first that does not fit.
template <class From, class To>
std::size_t convert(const char* bytes, std::span<To> to) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    From value{};
    std::memcpy(&value, bytes + i * sizeof value, sizeof value);
    if (!store(value_of(value), to[i])) return i;
  }
  return to.size();
}

template <class To>
std::size_t convert(npy_number from, const char* bytes, std::span<To> to) {
  using converter = std::size_t (*)(const char*, std::span<To>);
  constexpr converter in_order[] = {convert<double>,        convert<float>,         convert<half>,
                                    convert<std::int64_t>,  convert<std::int32_t>,  convert<std::int16_t>,
                                    convert<std::int8_t>,   convert<std::uint64_t>, convert<std::uint32_t>,
                                    convert<std::uint16_t>, convert<std::uint8_t>,  convert<std::uint8_t>};
  static_assert(std::size(in_order) == static_cast<std::size_t>(npy_number::boolean) + 1);
  return in_order[static_cast<std::size_t>(from)](bytes, to);
}

/// Bytes that are converted at a time.
constexpr std::size_t piece = std::size_t{1} << 16;

std::span<std::uint8_t> as_bytes(std::span<char> to) {
  return {reinterpret_cast<std::uint8_t*>(to.data()), to.size()};
}

/// Those of a file of its own.
class bytes_of_file final : public npy_bytes {
public:
  explicit bytes_of_file(const fs::path& file) : source_(file) {}

  std::size_t read(std::span<char> to) override { return source_.read(as_bytes(to)); }
  std::uint64_t left() const override { return source_.most_left(); }
  bool is_packed() const override { return source_.is_packed(); }

private:
  byte_source source_;
};

/// "x" of "data/x.npy.gz".
std::string name_of(const fs::path& file) {
  fs::path name = file.filename();
  for (const std::string_view suffix : {".gz", ".GZ", ".npy", ".NPY"})
    if (name.extension() == suffix) name = name.stem();
  return name.string();
}

/// Where the number `i`, counted in row-major order, lies in an array whose first axis runs fastest.
std::size_t place_in_columns(const shape& dims, std::size_t i) {
  std::size_t place = 0;
  std::size_t stride = dims.size();
  for (std::size_t axis = dims.rank(); axis-- > 0;) {
    stride /= dims[axis];
    place += i % dims[axis] * stride;
    i /= dims[axis];
  }
  return place;
}

void swap_bytes(std::span<char> numbers, std::size_t width) {
  for (; !numbers.empty(); numbers = numbers.subspan(width)) std::ranges::reverse(numbers.first(width));
}

} // namespace

std::size_t byte_size(npy_number n) noexcept {
  return std::ranges::find(number_names, n, &number_name::what)->bytes;
}

npy_text_place parse_npy_preamble(const std::filesystem::path& file, std::string_view who,
                                  std::string_view bytes) {
  const auto fail = [&](const std::string& what) { throw_malformed(file, fmt::format("{}: {}", who, what)); };
  if (bytes.size() < npy_preamble || !bytes.starts_with(npy_magic))
    fail(fmt::format("expected an array of numpy, found {}", in_quotes(bytes.substr(0, npy_magic.size()))));
  const auto version = static_cast<unsigned char>(bytes[npy_magic.size()]);
  if (version < 1 || version > 3)
    fail(fmt::format("expected version 1, 2 or 3 of the format, found {}", version));
  const std::string_view length = bytes.substr(npy_magic.size() + 2);
  npy_text_place place{npy_magic.size() + 4, static_cast<std::size_t>(number_in<2>(length))};
  if (version > 1) place = {npy_magic.size() + 6, static_cast<std::size_t>(number_in<4>(length))};
  if (place.length > longest_npy_header)
    fail(fmt::format("expected a header of at most {} bytes, found {}", longest_npy_header, place.length));
  return place;
}

npy_header parse_npy_text(const std::filesystem::path& file, std::string_view who, std::string_view text) {
  literal_reader in(file, who, text);
  std::optional<number_type> type;
  std::optional<bool> fortran;
  std::optional<std::vector<std::size_t>> extents;
  in.require('{');
  while (!in.take('}')) {
    const std::string_view key = in.text();
    in.require(':');
    if (key == "descr" && !type)
      type = type_in(in);
    else if (key == "fortran_order" && !fortran)
      fortran = in.truth();
    else if (key == "shape" && !extents)
      extents = in.extents();
    else
      in.fail(fmt::format("expected descr, fortran_order and shape once each, found {}", in_quotes(key)));
    if (!in.take(',')) {
      in.require('}');
      break;
    }
  }
  in.require_end();
  if (!type || !fortran || !extents) in.fail("the header lacks descr, fortran_order or shape");
  npy_header header{type->numbers, {}, type->is_big_endian, *fortran && extents->size() > 1};
  try {
    header.dims = shape(*extents);
  } catch (const std::exception&) {
    in.fail("it has more numbers than memory can hold");
  }
  return header;
}

std::string npy_header_for(npy_number n, const shape& dims) {
  const auto form = std::ranges::find(number_names, n, &number_name::what);
  std::string text = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': (",
                                 form->bytes > 1 ? '<' : '|', form->name);
  for (const std::size_t extent : dims) text += fmt::format("{}, ", extent);
  if (dims.rank() > 1) text.resize(text.size() - 2);
  if (dims.rank() == 1) text.resize(text.size() - 1);
  text += "), }";
  const std::size_t before = npy_magic.size() + 4;
  text.append(alignment - (before + text.size() + 1) % alignment, ' ');
  text += '\n';
  std::string bytes = std::string(npy_magic) + '\1' + '\0';
  append_number<2>(bytes, text.size());
  return bytes + text;
}

std::size_t convert_numbers(npy_number from, const char* bytes, std::span<float> to) {
  return convert(from, bytes, to);
}

npy_file::npy_file(const fs::path& file)
    : npy_file(file, name_of(file), std::make_unique<bytes_of_file>(file)) {}

npy_file::npy_file(fs::path file, std::string name, std::unique_ptr<npy_bytes> bytes)
    : file_(std::move(file)), name_(std::move(name)), bytes_(std::move(bytes)) {
  const std::uint64_t all = bytes_->left();
  if (all < npy_preamble) fail(fmt::format("expected an array of numpy, found {} bytes", all));
  const std::string who = fmt::format("array {}", in_quotes(name_));
  std::string head = take(npy_preamble);
  const npy_text_place place = parse_npy_preamble(file_, who, head);
  const std::size_t end = place.begin + place.length;
  if (end < npy_preamble || end > all) fail("its header is longer than the array");
  head += take(end - npy_preamble);
  header_ = parse_npy_text(file_, who, std::string_view(head).substr(place.begin));
  // its shape and type say how many bytes follow
  const std::uint64_t width = byte_size(header_.numbers), found = bytes_->left(), count = header_.dims.size();
  if (found / width < count || (!bytes_->is_packed() && (found % width != 0 || found / width != count)))
    fail(fmt::format("its shape of {} needs {} numbers of {} bytes, found {}{} bytes",
                     to_string(header_.dims), count, width, bytes_->is_packed() ? "at most " : "", found));
  if (left() == 0) require_end();
}

bool npy_file::is_npy(const fs::path& file) {
  std::error_code gone;
  if (!fs::is_regular_file(file, gone)) return false;
  byte_source source(file);
  std::array<char, npy_magic.size()> first{};
  return source.read(as_bytes(first)) == first.size() &&
         std::string_view(first.data(), first.size()) == npy_magic;
}

void npy_file::fail(std::string_view what) const {
  throw_malformed(file_, fmt::format("array {}: {}", in_quotes(name_), what));
}

/// Reads so many bytes, and not less.
void npy_file::take(std::span<char> to) {
  if (const std::size_t got = bytes_->read(to); got < to.size())
    fail(fmt::format("expected {} bytes more, found the end", to.size() - got));
}

std::string npy_file::take(std::size_t count) {
  std::string bytes(count, '\0');
  take(std::span(bytes));
  return bytes;
}

/// The checksum of packed bytes is compared where they end.
void npy_file::require_end() {
  char more = 0;
  if (bytes_->read({&more, 1}) > 0) fail("expected the end after the last number, found further bytes");
}

/// Takes the next numbers, in row-major order and little endian.
void npy_file::take_next(std::span<char> to, std::size_t width) {
  if (!header_.is_fortran) {
    take(to);
  } else {
    if (columns_.empty()) columns_ = take(header_.dims.size() * width);
    for (std::size_t i = 0; i < to.size() / width; ++i)
      std::copy_n(columns_.data() + place_in_columns(header_.dims, done_ + i) * width, width,
                  to.data() + i * width);
  }
  if (header_.is_big_endian) swap_bytes(to, width);
}

template <class To>
void npy_file::read_as(std::span<To> to) {
  if (to.size() > left())
    throw std::invalid_argument(
        fmt::format("npy: array '{}' has {} numbers left, and {} are asked for", name_, left(), to.size()));
  if (to.empty()) return;
  const std::size_t width = byte_size(header_.numbers);
  std::string buffer(std::min(piece, to.size() * width), '\0');
  while (!to.empty()) {
    const std::span<To> part = to.first(std::min(piece / width, to.size()));
    take_next(std::span(buffer).first(part.size() * width), width);
    const std::size_t fitting = convert(header_.numbers, buffer.data(), part);
    if (fitting < part.size())
      fail(fmt::format("number {} is {}", done_ + fitting,
                       std::is_same_v<To, float> ? "too large for float32"
                                                 : "no whole number, or too large for a class"));
    done_ += part.size();
    to = to.subspan(part.size());
  }
  if (left() == 0) require_end();
}

void npy_file::read(std::span<float> to) { read_as(to); }
void npy_file::read(std::span<double> to) { read_as(to); }
void npy_file::read(std::span<std::int64_t> to) { read_as(to); }
void npy_file::read(std::span<std::int32_t> to) { read_as(to); }
void npy_file::read(std::span<std::uint8_t> to) { read_as(to); }

} // namespace mailgrad
