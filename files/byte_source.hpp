#pragma once

#include <mailgrad/files/file_error.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

struct z_stream_s; // of zlib

namespace mailgrad {

/// A byte of deflate unpacks to at most this many bytes (zlib's technical notes).
inline constexpr std::uint64_t best_deflate_ratio = 1032;

/// Reads the bytes of a plain or gzip file once, from start to end. The first two bytes tell the two apart.
///
/// Sizes that a file states are never trusted: memory is allocated as bytes arrive, and a stream that unpacks
/// to more than `most_bytes` is refused.
/// Units   offsets count unpacked bytes.
/// Errors  file_error: the file is missing, unreadable or no regular file; the gzip stream is cut or damaged.
/// Threads one caller at a time.
class byte_source {
public:
  static constexpr std::uint64_t most_bytes = std::uint64_t{4} << 30;

  explicit byte_source(const std::filesystem::path& file);

  const std::filesystem::path& file() const noexcept { return file_; }
  std::uint64_t offset() const noexcept { return offset_; }
  /// Whether the file is a gzip file.
  bool is_packed() const noexcept { return packed_ != nullptr; }
  /// Upper bound on the bytes still to come: exact for a plain file, from the best ratio of gzip otherwise.
  std::uint64_t most_left() const noexcept;

  /// Fills `out` and returns the number of bytes filled, which is less than asked for only at the end.
  std::size_t read(std::span<std::uint8_t> out);
  /// Whether every byte has been read; for a gzip stream this also means that its checksum was right.
  bool at_end();

private:
  struct ends {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
    void operator()(z_stream_s* packed) const noexcept;
  };

  std::size_t take(std::span<std::uint8_t> out) { return is_packed() ? unpack(out) : copy(out); }
  std::size_t copy(std::span<std::uint8_t> out);
  std::size_t unpack(std::span<std::uint8_t> out);
  bool refill();
  void begin_next_member();

  std::filesystem::path file_;
  std::unique_ptr<std::FILE, ends> handle_;
  std::uint64_t bytes_ = 0; ///< size of the file
  std::uint64_t taken_ = 0; ///< bytes read from the file
  std::vector<std::uint8_t> buffer_;
  std::span<const std::uint8_t> pending_;    ///< read and not yet given out or unpacked
  std::unique_ptr<z_stream_s, ends> packed_; ///< null for a plain file
  bool finished_ = false;                    ///< the last gzip member ended well
  std::uint64_t offset_ = 0;
};

/// The next `count` bytes, or fewer if the file ends before. The memory it takes is at most twice the bytes
/// that arrive, however large `count` is.
std::vector<std::uint8_t> read_up_to(byte_source& source, std::uint64_t count);

/// What some programs write before the first character of a text in UTF-8.
inline constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

/// The lines of a text file, without their ends ("\n" or "\r\n") and without a byte-order mark.
/// Errors  file_error for an empty line before another, for a line over `longest` bytes, and as byte_source.
/// Threads one caller at a time.
class line_reader {
public:
  static constexpr std::size_t longest = std::size_t{64} << 20;

  explicit line_reader(const std::filesystem::path& file) : source_(file) {}

  const std::filesystem::path& file() const noexcept { return source_.file(); }
  /// The next line, valid until the next call; nothing at the end.
  std::optional<std::string_view> next();
  /// The number of the line that next() returned last.
  file_line number() const noexcept { return {number_}; }

private:
  std::optional<std::string_view> next_raw();
  void refill();

  byte_source source_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0; ///< of what is read and not yet given out
  std::size_t end_ = 0;
  std::uint64_t number_ = 0;
  bool finished_ = false; ///< nothing more comes from the source
};

} // namespace mailgrad
