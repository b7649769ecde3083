#include <mailgrad/files/byte_archive.hpp>
#include <mailgrad/files/file_error.hpp>

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <utility>

namespace mailgrad {

namespace {

static_assert(std::endian::native == std::endian::little, "floats are copied as they lie in memory");

/// The first byte of a value. A whole number, a length and a count follow in as many bytes as the low half of
/// the tag says, 0 to 8, and without zeros at the end.
namespace tag {
constexpr std::uint8_t none = 0x00, present = 0x01, no = 0x02, yes = 0x03, number = 0x10, negative = 0x20,
                       real = 0x30, text = 0x40, list = 0x50, named = 0x60, floats = 0x70, version = 0x80,
                       longest = 8;
} // namespace tag

std::uint8_t bytes_of(std::uint64_t x) { return static_cast<std::uint8_t>((std::bit_width(x) + 7) / 8); }

void append(std::string& to, std::uint8_t kind, std::uint64_t x) {
  const std::uint8_t count = bytes_of(x);
  to += static_cast<char>(kind | count);
  for (std::uint8_t i = 0; i < count; ++i) to += static_cast<char>(x >> (8 * i) & 0xff);
}

std::string_view in_words(std::uint8_t found) {
  constexpr std::pair<int, std::string_view> kinds[] = {
      {tag::number, "a whole number"}, {tag::negative, "a negative number"}, {tag::text, "a text"},
      {tag::list, "a list"},           {tag::named, "named entries"},        {tag::floats, "floats"},
      {tag::version, "a version"}};
  if (found == tag::none || found == tag::present) return "a mark whether there is a value";
  if (found == tag::no || found == tag::yes) return "true or false";
  if (found == tag::real) return "a real number";
  for (const auto& [kind, words] : kinds)
    if ((found & 0xf0) == kind && (found & 0x0f) <= tag::longest) return words;
  return "a byte that begins no value";
}

} // namespace

void byte_archive_writer::version(std::uint64_t current) { append(bytes_, tag::version, current); }

void byte_archive_writer::floats(std::string_view name, std::span<float> values) {
  hold(name, nullptr, values);
}

void byte_archive_writer::hold(std::string_view, std::shared_ptr<const void>, std::span<const float> values) {
  append(bytes_, tag::floats, values.size());
  bytes_.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
}

const archived_array& byte_archive_writer::array(std::string_view) {
  throw std::logic_error("byte archive: nothing can be read from what is being written");
}

void byte_archive_writer::fail(const std::string& what) const {
  throw std::logic_error("byte archive: " + what);
}

void byte_archive_writer::value(bool& x) { bytes_ += static_cast<char>(x ? tag::yes : tag::no); }

void byte_archive_writer::value(double& x) {
  bytes_ += static_cast<char>(tag::real);
  append_number<8>(bytes_, std::bit_cast<std::uint64_t>(x));
}

void byte_archive_writer::value(std::string& x) {
  append(bytes_, tag::text, x.size());
  bytes_ += x;
}

void byte_archive_writer::number(std::uint64_t& x, std::uint64_t) { append(bytes_, tag::number, x); }

/// A negative number is written as what is missing to -1.
void byte_archive_writer::number(std::int64_t& x, std::int64_t, std::int64_t) {
  append(bytes_, x < 0 ? tag::negative : tag::number, static_cast<std::uint64_t>(x < 0 ? -(x + 1) : x));
}

bool byte_archive_writer::presence(bool present) {
  bytes_ += static_cast<char>(present ? tag::present : tag::none);
  return present;
}

std::size_t byte_archive_writer::entries(std::size_t count) {
  append(bytes_, tag::list, count);
  return count;
}

std::vector<std::string> byte_archive_writer::names(std::vector<std::string> written) {
  append(bytes_, tag::named, written.size());
  for (std::string& name : written) value(name);
  return written;
}

byte_archive_reader::byte_archive_reader(std::string_view bytes, std::string place)
    : bytes_(bytes), place_(std::move(place)) {}

std::string byte_archive_reader::path() const {
  std::string text = place_;
  for (const step& s : way_)
    text.append(text.empty() ? "" : "/")
        .append(s.name.empty() ? std::to_string(s.index) : legible(s.name)); // it may come from the bytes
  return text;
}

void byte_archive_reader::fail(const std::string& what) const {
  throw archive_error(fmt::format("{}: byte {}: {}", path(), at_, what));
}

void byte_archive_reader::open(std::string_view name) { way_.push_back({name}); }
void byte_archive_reader::open(std::size_t index) { way_.push_back({{}, index}); }
void byte_archive_reader::close() noexcept { way_.pop_back(); }

void byte_archive_reader::require_end() const {
  if (at_ < bytes_.size())
    throw archive_error(
        fmt::format("{}: byte {}: expected the end, found {} more bytes, which this build does not know",
                    path(), at_, bytes_.size() - at_));
}

/// Takes the first byte of a value, which must lie between two tags.
std::uint8_t byte_archive_reader::take_tag(std::string_view expected, std::uint8_t first, std::uint8_t last) {
  if (at_ == bytes_.size()) fail(fmt::format("expected {}, found the end", expected));
  const auto found = static_cast<std::uint8_t>(bytes_[at_]);
  if (found < first || found > last) fail(fmt::format("expected {}, found {}", expected, in_words(found)));
  ++at_;
  return found;
}

std::string_view byte_archive_reader::take(std::size_t count, std::string_view what) {
  if (count > bytes_.size() - at_)
    fail(fmt::format("expected {} bytes of {}, found {}", count, what, bytes_.size() - at_));
  at_ += count;
  return bytes_.substr(at_ - count, count);
}

/// A number must be written in as few bytes as possible, so that equal graphs have equal bytes.
std::uint64_t byte_archive_reader::take_number(std::string_view expected, std::uint8_t kind) {
  const std::size_t count = take_tag(expected, kind, kind + tag::longest) & 0x0fU;
  const std::string_view digits = take(count, "a number");
  std::uint64_t x = 0;
  for (std::size_t i = 0; i < count; ++i) x |= std::uint64_t{static_cast<std::uint8_t>(digits[i])} << (8 * i);
  if (bytes_of(x) != count)
    fail(fmt::format("expected {} in {} bytes, found it in {}", expected, bytes_of(x), count));
  return x;
}

/// A count of things that take at least `bytes_each` bytes; as many bytes must be left.
std::size_t byte_archive_reader::take_count(std::string_view what, std::uint8_t kind,
                                            std::size_t bytes_each) {
  const std::uint64_t count = take_number(what, kind);
  if (count > (bytes_.size() - at_) / bytes_each)
    fail(fmt::format("expected {} with room for {} entries, found {} more bytes", what, count,
                     bytes_.size() - at_));
  return static_cast<std::size_t>(count);
}

void byte_archive_reader::version(std::uint64_t current) {
  const std::uint64_t found = take_number("a version", tag::version);
  if (found != current)
    fail(fmt::format("is of version {}, and this build knows version {}", found, current));
}

void byte_archive_reader::floats(std::string_view name, std::span<float> values) {
  open(name);
  const std::size_t count = take_count("floats", tag::floats, sizeof(float));
  if (count != values.size()) fail(fmt::format("expected {} floats, found {}", values.size(), count));
  const std::string_view found = take(values.size_bytes(), "floats");
  if (!found.empty()) std::memcpy(values.data(), found.data(), found.size());
  close();
}

void byte_archive_reader::hold(std::string_view, std::shared_ptr<const void>, std::span<const float>) {
  throw std::logic_error("byte archive: nothing can be written to what is being read");
}

const archived_array& byte_archive_reader::array(std::string_view name) {
  open(name);
  const std::size_t count = take_count("floats", tag::floats, sizeof(float));
  const auto values = std::make_shared<std::vector<float>>(count);
  const std::string_view found = take(count * sizeof(float), "floats");
  if (!found.empty()) std::memcpy(values->data(), found.data(), found.size());
  arrays_.push_back({path(), values, *values});
  close();
  return arrays_.back();
}

void byte_archive_reader::value(bool& x) { x = take_tag("true or false", tag::no, tag::yes) == tag::yes; }

void byte_archive_reader::value(double& x) {
  take_tag("a real number", tag::real, tag::real);
  x = std::bit_cast<double>(number_in<8>(take(8, "a real number")));
}

void byte_archive_reader::value(std::string& x) { x = take(take_count("a text", tag::text, 1), "a text"); }

void byte_archive_reader::number(std::uint64_t& x, std::uint64_t greatest) {
  const std::uint64_t found = take_number("a whole number", tag::number);
  if (found > greatest) fail(fmt::format("expected a whole number up to {}, found {}", greatest, found));
  x = found;
}

void byte_archive_reader::number(std::int64_t& x, std::int64_t least, std::int64_t greatest) {
  const bool below = at_ < bytes_.size() && (static_cast<std::uint8_t>(bytes_[at_]) & 0xf0) == tag::negative;
  const std::uint64_t size = take_number("a whole number", below ? tag::negative : tag::number);
  const bool fits = size <= std::uint64_t{std::numeric_limits<std::int64_t>::max()};
  const std::int64_t found = fits ? static_cast<std::int64_t>(size) : 0;
  const std::int64_t signed_one = below ? -found - 1 : found;
  if (!fits || signed_one < least || signed_one > greatest)
    fail(fmt::format("expected a whole number from {} to {}", least, greatest));
  x = signed_one;
}

bool byte_archive_reader::presence(bool) {
  return take_tag("a mark whether there is a value", tag::none, tag::present) == tag::present;
}

/// Each entry takes at least one byte.
std::size_t byte_archive_reader::entries(std::size_t) { return take_count("a list", tag::list, 1); }

std::vector<std::string> byte_archive_reader::names(std::vector<std::string>) {
  std::vector<std::string> found(take_count("named entries", tag::named, 2));
  for (std::string& name : found) value(name);
  return found;
}

void write_nested(archive& to, const saved_fields& fields) {
  std::string text = fields.text();
  std::vector<std::string> paths;
  for (const archived_array& x : fields.arrays()) paths.push_back(x.path);
  to.field("text", text);
  to.field("arrays", paths);
  for (const archived_array& x : fields.arrays()) to.hold(x.path, x.owner, x.values);
}

std::shared_ptr<saved_fields> read_nested(archive& from) {
  std::string text;
  std::vector<std::string> paths;
  from.field("text", text);
  from.field("arrays", paths);
  std::vector<archived_array> arrays;
  for (const std::string& path : paths) {
    const archived_array& read = from.array(path);
    const auto copy = std::make_shared<std::vector<float>>(read.values.begin(), read.values.end());
    arrays.push_back({path, copy, *copy});
  }
  return std::make_shared<saved_fields>(text, std::move(arrays));
}

void keep_nested(archive& a, std::string_view name, std::shared_ptr<saved_fields>& fields) {
  bool present = fields != nullptr;
  a.group(name, [&] {
    a.field("there", present);
    if (!present) return fields.reset();
    a.group("fields", [&] {
      if (a.reads())
        fields = read_nested(a);
      else
        write_nested(a, *fields);
    });
  });
}

} // namespace mailgrad
