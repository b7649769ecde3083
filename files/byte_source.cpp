#include <mailgrad/files/byte_source.hpp>

#include <fmt/format.h>

#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>

namespace mailgrad {

namespace {

constexpr std::size_t chunk = std::size_t{1} << 16;

} // namespace

struct byte_source::implementation {
  struct close_file {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };

  /// Owns the state of zlib; the members of a gzip file are unpacked one after another.
  class gunzip {
  public:
    gunzip() {
      if (inflateInit2(&stream_, 15 + 16) != Z_OK) throw std::bad_alloc();
    }
    ~gunzip() { inflateEnd(&stream_); }
    gunzip(const gunzip&) = delete;
    gunzip& operator=(const gunzip&) = delete;

    z_stream& stream() noexcept { return stream_; }
    void next_member() { inflateReset(&stream_); }

  private:
    z_stream stream_{};
  };

  explicit implementation(const std::filesystem::path& name);

  std::size_t read(std::span<std::uint8_t> out) { return packed ? unpack(out) : copy(out); }
  std::uint64_t most_left() const noexcept;

  std::size_t copy(std::span<std::uint8_t> out);
  std::size_t unpack(std::span<std::uint8_t> out);
  bool refill();
  bool begin_next_member();

  std::filesystem::path file;
  std::unique_ptr<std::FILE, close_file> handle;
  std::uint64_t bytes = 0; ///< size of the file
  std::uint64_t taken = 0; ///< bytes read from the file
  std::array<std::uint8_t, chunk> buffer{};
  std::span<const std::uint8_t> pending; ///< read and not yet given out or unpacked
  std::unique_ptr<gunzip> packed;
  bool finished = false; ///< the last gzip member ended well
};

byte_source::implementation::implementation(const std::filesystem::path& name) : file(name) {
  struct stat status {};
  if (stat(name.c_str(), &status) != 0) throw_unreadable(name, errno);
  if (S_ISDIR(status.st_mode)) throw_unreadable(name, EISDIR);
  if (!S_ISREG(status.st_mode)) throw_malformed(name, "expected a regular file, found a device or a pipe");
  handle.reset(std::fopen(name.c_str(), "rb"));
  if (!handle) throw_unreadable(name, errno);
  std::setvbuf(handle.get(), nullptr, _IONBF, 0); // a second buffer would only add a copy
  bytes = static_cast<std::uint64_t>(status.st_size);
  refill();
  if (pending.size() >= 2 && pending[0] == 0x1f && pending[1] == 0x8b) packed = std::make_unique<gunzip>();
}

std::uint64_t byte_source::implementation::most_left() const noexcept {
  const std::uint64_t left = bytes - std::min(bytes, taken) + pending.size();
  if (!packed) return left;
  // The bytes that zlib has read but not yet unpacked amount to at most one window of output.
  return finished ? 0 : left * best_deflate_ratio + (std::uint64_t{1} << MAX_WBITS);
}

bool byte_source::implementation::refill() {
  const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), handle.get());
  if (std::ferror(handle.get()) != 0) throw_unreadable(file, errno);
  taken += count;
  pending = std::span(buffer).first(count);
  return count > 0;
}

std::size_t byte_source::implementation::copy(std::span<std::uint8_t> out) {
  std::size_t done = 0;
  while (done < out.size() && (!pending.empty() || refill())) {
    const std::size_t count = std::min(out.size() - done, pending.size());
    std::copy_n(pending.data(), count, out.data() + done);
    pending = pending.subspan(count);
    done += count;
  }
  return done;
}

/// A gzip file may hold several members after one another (RFC 1952, 2.2).
bool byte_source::implementation::begin_next_member() {
  if (pending.empty() && !refill()) {
    finished = true;
    return false;
  }
  if (pending.front() != 0x1f)
    throw_malformed(file, file_offset{taken - pending.size()},
                    "expected the end of the gzip file, found further bytes");
  packed->next_member();
  return true;
}

std::size_t byte_source::implementation::unpack(std::span<std::uint8_t> out) {
  std::size_t done = 0;
  while (done < out.size() && !finished) {
    if (pending.empty() && !refill())
      throw_malformed(file, file_offset{taken}, "the gzip file is cut: expected more, found its end");
    z_stream& z = packed->stream();
    const std::size_t room = std::min(out.size() - done, chunk);
    z.next_in = const_cast<std::uint8_t*>(pending.data());
    z.avail_in = static_cast<unsigned>(pending.size());
    z.next_out = out.data() + done;
    z.avail_out = static_cast<unsigned>(room);
    const int code = inflate(&z, Z_NO_FLUSH);
    pending = pending.last(z.avail_in);
    done += room - z.avail_out;
    if (code == Z_STREAM_END)
      begin_next_member();
    else if (code != Z_OK && code != Z_BUF_ERROR)
      throw_malformed(file, file_offset{taken - pending.size()},
                      fmt::format("the gzip file is damaged: {}", z.msg != nullptr ? z.msg : "bad data"));
  }
  return done;
}

byte_source::byte_source(const std::filesystem::path& file)
    : file_(file), implementation_(std::make_unique<implementation>(file)) {}
byte_source::~byte_source() = default;
byte_source::byte_source(byte_source&&) noexcept = default;
byte_source& byte_source::operator=(byte_source&&) noexcept = default;

bool byte_source::is_packed() const noexcept { return implementation_->packed != nullptr; }

std::uint64_t byte_source::most_left() const noexcept { return implementation_->most_left(); }

std::size_t byte_source::read(std::span<std::uint8_t> out) {
  const std::size_t count = implementation_->read(out);
  offset_ += count;
  if (offset_ > most_bytes)
    throw_malformed(
        file_, file_offset{offset_},
        fmt::format("expected at most {} bytes, found more; take a part of the file", most_bytes));
  return count;
}

bool byte_source::at_end() {
  std::uint8_t next = 0;
  return implementation_->read({&next, 1}) == 0;
}

std::vector<std::uint8_t> read_up_to(byte_source& source, std::uint64_t count) {
  const std::uint64_t most = std::min(count, source.most_left());
  std::vector<std::uint8_t> bytes;
  while (bytes.size() < most) {
    const std::size_t have = bytes.size();
    bytes.reserve(static_cast<std::size_t>(std::min<std::uint64_t>(most, std::max(2 * have, chunk))));
    bytes.resize(bytes.capacity());
    const std::size_t got = source.read(std::span(bytes).subspan(have));
    if (have + got < bytes.size()) {
      bytes.resize(have + got);
      break;
    }
  }
  return bytes;
}

namespace {

constexpr std::size_t least_room = std::size_t{1} << 16;

} // namespace

void line_reader::refill() {
  std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(begin_),
            buffer_.begin() + static_cast<std::ptrdiff_t>(end_), buffer_.begin());
  end_ -= begin_;
  begin_ = 0;
  if (buffer_.size() - end_ < least_room) buffer_.resize(std::max(2 * end_, end_ + least_room));
  const auto room = std::span(buffer_).subspan(end_);
  const std::size_t count = source_.read({reinterpret_cast<std::uint8_t*>(room.data()), room.size()});
  end_ += count;
  finished_ = count < room.size();
}

std::optional<std::string_view> line_reader::next_raw() {
  std::size_t searched = 0;
  while (true) {
    const std::string_view have(buffer_.data() + begin_, end_ - begin_);
    const std::size_t newline = have.find('\n', searched);
    const std::string_view line = have.substr(0, newline);
    if (line.size() > longest)
      throw_malformed(file(), file_line{number_ + 1},
                      fmt::format("expected at most {} bytes, found a longer line", longest));
    if (newline == std::string_view::npos && !finished_) {
      searched = have.size();
      refill();
      continue;
    }
    if (have.empty()) return std::nullopt;
    begin_ += std::min(line.size() + 1, have.size());
    const std::size_t mark = number_ == 0 && line.starts_with(byte_order_mark) ? byte_order_mark.size() : 0;
    ++number_;
    return line.substr(mark, line.size() - mark - (line.ends_with('\r') ? 1 : 0));
  }
}

std::optional<std::string_view> line_reader::next() {
  auto line = next_raw();
  if (!line || !line->empty()) return line;
  const file_line first_empty = number();
  while ((line = next_raw()))
    if (!line->empty()) throw_malformed(file(), first_empty, "expected a row, found an empty line");
  return std::nullopt;
}

} // namespace mailgrad
