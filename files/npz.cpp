#include <mailgrad/files/npz.hpp>

#include <mailgrad/files/file_error.hpp>
#include <mailgrad/files/small_floats.hpp>

#include <fmt/format.h>

#include <zip.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <set>
#include <stdexcept>
#include <type_traits>
#include <utility>

namespace mailgrad {

static_assert(std::endian::native == std::endian::little, "numbers are read as they lie in memory");

namespace {

constexpr std::string_view suffix = ".npy";
/// Bytes that are converted at a time.
constexpr std::size_t piece = std::size_t{1} << 16;
/// A byte of deflate unpacks to at most this many bytes (zlib's technical notes).
constexpr std::uint64_t best_ratio = 1032;

/// Stores `value` if `to` can hold it.
template <class From, class To>
bool store(From value, To& to) {
  if constexpr (std::is_same_v<To, float>) {
    to = static_cast<float>(value);
    if constexpr (std::is_floating_point_v<From>) return std::isfinite(to) || !std::isfinite(value);
    return true;
  } else if constexpr (std::is_floating_point_v<From>) {
    const bool fits = value >= static_cast<From>(std::numeric_limits<To>::min()) &&
                      static_cast<double>(value) <= static_cast<double>(std::numeric_limits<To>::max()) &&
                      value == std::floor(value);
    if (fits) to = static_cast<To>(value);
    return fits;
  } else {
    if (!std::in_range<To>(value)) return false;
    to = static_cast<To>(value);
    return true;
  }
}

/// Converts numbers of type `From`. Returns the index of the first that does not fit.
template <class From, class To>
std::size_t convert(const char* bytes, std::span<To> to) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    From value{};
    std::memcpy(&value, bytes + i * sizeof value, sizeof value);
    if (!store(value, to[i])) return i;
  }
  return to.size();
}

template <class To>
std::size_t convert_halves(const char* bytes, std::span<To> to) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes + i * sizeof bits, sizeof bits);
    if (!store(float_of_half(bits), to[i])) return i;
  }
  return to.size();
}

template <class To>
std::size_t convert(npy_number from, const char* bytes, std::span<To> to) {
  switch (from) {
  case npy_number::f64:
    return convert<double>(bytes, to);
  case npy_number::f32:
    return convert<float>(bytes, to);
  case npy_number::f16:
    return convert_halves(bytes, to);
  case npy_number::i64:
    return convert<std::int64_t>(bytes, to);
  case npy_number::i32:
    return convert<std::int32_t>(bytes, to);
  case npy_number::i16:
    return convert<std::int16_t>(bytes, to);
  case npy_number::i8:
    return convert<std::int8_t>(bytes, to);
  case npy_number::u64:
    return convert<std::uint64_t>(bytes, to);
  case npy_number::u32:
    return convert<std::uint32_t>(bytes, to);
  case npy_number::u16:
    return convert<std::uint16_t>(bytes, to);
  case npy_number::u8:
  case npy_number::boolean:
    break;
  }
  return convert<std::uint8_t>(bytes, to);
}

/// An entry of the archive, open for reading.
class entry_reader {
public:
  entry_reader(zip_t* archive, std::uint64_t entry, const std::filesystem::path& file, std::string who)
      : file_(file), who_(std::move(who)), entry_(zip_fopen_index(archive, entry, 0)) {
    if (entry_ == nullptr) fail(zip_strerror(archive));
  }
  ~entry_reader() { zip_fclose(entry_); }
  entry_reader(const entry_reader&) = delete;
  entry_reader& operator=(const entry_reader&) = delete;

  [[noreturn]] void fail(std::string_view what) const {
    throw_malformed(file_, fmt::format("{}: {}", who_, what));
  }
  /// Reads so many bytes, and not less.
  void take(char* to, std::size_t count) {
    while (count > 0) {
      const zip_int64_t got = zip_fread(entry_, to, count);
      if (got < 0) fail(zip_file_strerror(entry_));
      if (got == 0) fail(fmt::format("expected {} bytes more, found the end", count));
      to += got;
      count -= static_cast<std::size_t>(got);
    }
  }
  std::string take(std::size_t count) {
    std::string bytes(count, '\0');
    take(bytes.data(), count);
    return bytes;
  }
  /// The checksum is compared at the end.
  void require_end() {
    char more = 0;
    const zip_int64_t got = zip_fread(entry_, &more, 1);
    if (got < 0) fail(zip_file_strerror(entry_));
    if (got > 0) fail("expected the end after the last number, found further bytes");
  }

private:
  const std::filesystem::path& file_;
  std::string who_;
  zip_file_t* entry_;
};

std::string array_called(std::string_view name) { return "array " + in_quotes(name); }

} // namespace

struct npz_file::archive {
  explicit archive(const std::filesystem::path& path) {
    std::error_code gone;
    const auto status = std::filesystem::status(path, gone);
    if (!std::filesystem::exists(status)) throw_unreadable(path, gone ? gone.value() : ENOENT);
    if (!std::filesystem::is_regular_file(status))
      throw_malformed(path, "expected a file, found something else");
    bytes = std::filesystem::file_size(path);
    int code = 0;
    handle = zip_open(path.c_str(), ZIP_RDONLY, &code);
    if (handle != nullptr) return;
    zip_error_t why;
    zip_error_init_with_code(&why, code);
    const std::string text =
        fmt::format("expected a zip archive of numpy, found none: {}", zip_error_strerror(&why));
    zip_error_fini(&why);
    throw_malformed(path, text);
  }
  ~archive() {
    if (handle != nullptr) zip_discard(handle);
  }
  archive(const archive&) = delete;
  archive& operator=(const archive&) = delete;

  zip_t* handle = nullptr;
  std::uint64_t bytes = 0; ///< of the file
};

npz_file::~npz_file() = default;
npz_file::npz_file(npz_file&&) noexcept = default;

npz_file::npz_file(const std::filesystem::path& path)
    : path_(path), archive_(std::make_unique<archive>(path)) {
  std::set<std::string, std::less<>> names;
  const zip_int64_t count = zip_get_num_entries(archive_->handle, 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    const char* name = zip_get_name(archive_->handle, static_cast<zip_uint64_t>(i), 0);
    if (name != nullptr && std::string_view(name).ends_with('/')) continue; // a folder
    arrays_.push_back(checked(static_cast<std::uint64_t>(i)));
    if (!names.insert(arrays_.back().name).second)
      throw_malformed(path_, array_called(arrays_.back().name) + " comes twice");
  }
}

npz_array npz_file::checked(std::uint64_t entry) const {
  zip_stat_t status;
  zip_stat_init(&status);
  constexpr zip_uint64_t needed =
      ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
  if (zip_stat_index(archive_->handle, entry, 0, &status) != 0 || (status.valid & needed) != needed)
    throw_malformed(path_, fmt::format("entry {} is damaged", entry));
  const std::string_view name = status.name;
  if (!name.ends_with(suffix))
    throw_malformed(path_, fmt::format("expected arrays of numpy, found the entry {}", in_quotes(name)));
  npz_array a{std::string(name.substr(0, name.size() - suffix.size())), {}, entry, 0};
  const std::string who = array_called(a.name);
  const bool stored = status.comp_method == ZIP_CM_STORE;
  if ((!stored && status.comp_method != ZIP_CM_DEFLATE) || status.encryption_method != ZIP_EM_NONE)
    throw_malformed(path_, who + " is packed or encrypted in a way that numpy does not use");
  if (status.comp_size > archive_->bytes ||
      (stored ? status.size != status.comp_size : status.size / best_ratio > status.comp_size))
    throw_malformed(path_, fmt::format("{} is said to have {} bytes, packed {}, and the file has {}", who,
                                       status.size, status.comp_size, archive_->bytes));
  entry_reader bytes(archive_->handle, entry, path_, who);
  if (status.size < npy_preamble)
    bytes.fail(fmt::format("expected an array of numpy, found {} bytes", status.size));
  std::string head = bytes.take(npy_preamble);
  const npy_text_place place = parse_npy_preamble(path_, who, head);
  a.begin = place.begin + place.length;
  if (a.begin < npy_preamble || a.begin > status.size) bytes.fail("its header is longer than the array");
  head += bytes.take(static_cast<std::size_t>(a.begin) - npy_preamble);
  a.header = parse_npy_text(path_, who, std::string_view(head).substr(place.begin));
  const std::uint64_t width = byte_size(a.header.numbers);
  const std::uint64_t left = status.size - a.begin;
  if (left % width != 0 || left / width != a.header.dims.size())
    bytes.fail(fmt::format("its shape of {} needs {} numbers of {} bytes, found {} bytes",
                           to_string(a.header.dims), a.header.dims.size(), width, left));
  return a;
}

bool npz_file::is_npz(const std::filesystem::path& path) {
  std::array<char, 4> first{};
  std::ifstream file(path, std::ios::binary);
  return file.read(first.data(), first.size()) && std::string_view(first.data(), 4) == "PK\3\4";
}

const npz_array* npz_file::find(std::string_view name) const noexcept {
  const auto found = std::ranges::find(arrays_, name, &npz_array::name);
  return found == arrays_.end() ? nullptr : &*found;
}

template <class To>
void npz_file::read_as(const npz_array& what, std::span<To> to) {
  if (to.size() != what.header.dims.size())
    throw std::invalid_argument(fmt::format("npz: array '{}' has {} numbers, and there is room for {}",
                                            what.name, what.header.dims.size(), to.size()));
  entry_reader bytes(archive_->handle, what.entry, path_, array_called(what.name));
  bytes.take(static_cast<std::size_t>(what.begin));
  const std::size_t width = byte_size(what.header.numbers);
  std::string buffer(std::min(piece, to.size() * width), '\0');
  for (std::size_t first = 0; first < to.size(); first += piece / width) {
    const std::span<To> part = to.subspan(first, std::min(piece / width, to.size() - first));
    bytes.take(buffer.data(), part.size() * width);
    if (const std::size_t done = convert(what.header.numbers, buffer.data(), part); done < part.size())
      bytes.fail(fmt::format("number {} is {}", first + done,
                             std::is_same_v<To, float> ? "too large for float32"
                                                       : "no whole number, or too large for a class"));
  }
  bytes.require_end();
}

void npz_file::read(const npz_array& what, std::span<float> to) { read_as(what, to); }
void npz_file::read(const npz_array& what, std::span<std::int32_t> to) { read_as(what, to); }
void npz_file::read(const npz_array& what, std::span<std::uint8_t> to) { read_as(what, to); }

} // namespace mailgrad
