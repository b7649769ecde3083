#include <mailgrad/files/byte_source.hpp>

#include <fmt/format.h>

#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>

namespace mailgrad {

namespace {

constexpr std::size_t chunk = std::size_t{1} << 16;

} // namespace

void byte_source::ends::operator()(z_stream_s* packed) const noexcept {
  inflateEnd(packed);
  delete packed;
}

byte_source::byte_source(const std::filesystem::path& file) : file_(file), buffer_(chunk) {
  struct stat status {};
  if (stat(file.c_str(), &status) != 0) throw_unreadable(file, errno);
  if (S_ISDIR(status.st_mode)) throw_unreadable(file, EISDIR);
  if (!S_ISREG(status.st_mode)) throw_malformed(file, "expected a regular file, found a device or a pipe");
  handle_.reset(std::fopen(file.c_str(), "rb"));
  if (!handle_) throw_unreadable(file, errno);
  std::setvbuf(handle_.get(), nullptr, _IONBF, 0); // a second buffer would only add a copy
  bytes_ = static_cast<std::uint64_t>(status.st_size);
  refill();
  if (pending_.size() < 2 || pending_[0] != 0x1f || pending_[1] != 0x8b) return;
  packed_.reset(new z_stream{});
  if (inflateInit2(packed_.get(), 15 + 16) != Z_OK) throw std::bad_alloc();
}

std::uint64_t byte_source::most_left() const noexcept {
  const std::uint64_t left = bytes_ - std::min(bytes_, taken_) + pending_.size();
  if (!packed_) return left;
  // The bytes that zlib has read but not yet unpacked amount to at most one window of output.
  return finished_ ? 0 : left * best_deflate_ratio + (std::uint64_t{1} << MAX_WBITS);
}

bool byte_source::refill() {
  const std::size_t count = std::fread(buffer_.data(), 1, buffer_.size(), handle_.get());
  if (std::ferror(handle_.get()) != 0) throw_unreadable(file_, errno);
  taken_ += count;
  pending_ = std::span(buffer_).first(count);
  return count > 0;
}

std::size_t byte_source::copy(std::span<std::uint8_t> out) {
  std::size_t done = 0;
  while (done < out.size() && (!pending_.empty() || refill())) {
    const std::size_t count = std::min(out.size() - done, pending_.size());
    std::copy_n(pending_.data(), count, out.data() + done);
    pending_ = pending_.subspan(count);
    done += count;
  }
  return done;
}

/// A gzip file may hold several members after one another (RFC 1952, 2.2).
void byte_source::begin_next_member() {
  finished_ = pending_.empty() && !refill();
  if (finished_) return;
  if (pending_.front() != 0x1f)
    throw_malformed(file_, file_offset{taken_ - pending_.size()},
                    "expected the end of the gzip file, found further bytes");
  inflateReset(packed_.get());
}

std::size_t byte_source::unpack(std::span<std::uint8_t> out) {
  std::size_t done = 0;
  while (done < out.size() && !finished_) {
    if (pending_.empty() && !refill())
      throw_malformed(file_, file_offset{taken_}, "the gzip file is cut: expected more, found its end");
    z_stream& z = *packed_;
    const std::size_t room = std::min(out.size() - done, chunk);
    z.next_in = const_cast<std::uint8_t*>(pending_.data());
    z.avail_in = static_cast<unsigned>(pending_.size());
    z.next_out = out.data() + done;
    z.avail_out = static_cast<unsigned>(room);
    const int code = inflate(&z, Z_NO_FLUSH);
    pending_ = pending_.last(z.avail_in);
    done += room - z.avail_out;
    if (code == Z_STREAM_END)
      begin_next_member();
    else if (code != Z_OK && code != Z_BUF_ERROR)
      throw_malformed(file_, file_offset{taken_ - pending_.size()},
                      fmt::format("the gzip file is damaged: {}", z.msg != nullptr ? z.msg : "bad data"));
  }
  return done;
}

std::size_t byte_source::read(std::span<std::uint8_t> out) {
  const std::size_t count = take(out);
  offset_ += count;
  if (offset_ > most_bytes)
    throw_malformed(
        file_, file_offset{offset_},
        fmt::format("expected at most {} bytes, found more; take a part of the file", most_bytes));
  return count;
}

bool byte_source::at_end() {
  std::uint8_t next = 0;
  return take({&next, 1}) == 0;
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

void line_reader::refill() {
  std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(begin_),
            buffer_.begin() + static_cast<std::ptrdiff_t>(end_), buffer_.begin());
  end_ -= begin_;
  begin_ = 0;
  if (buffer_.size() - end_ < chunk) buffer_.resize(std::max(2 * end_, end_ + chunk));
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
