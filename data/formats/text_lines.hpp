#pragma once

#include <mailgrad/files/file_error.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>

namespace mailgrad {

/// The lines of a text, in UTF-8 and without their ends, whatever encoding the text has.
///
/// A byte-order mark tells UTF-16, or else a zero byte among the first two. Of other texts, a line is read as
/// UTF-8 if it is valid UTF-8, and as Windows-1252 if not; Latin-1 is a part of that. So a line is read in
/// the same way wherever it stands. A line ends with "\n", "\r\n" or "\r".
/// Errors  file_error for a line over `longest` bytes, a character 0, half a character of UTF-16, and as
///         byte_source.
/// Threads one caller at a time.
class text_lines {
public:
  static constexpr std::size_t longest = std::size_t{64} << 20;

  /// Reads a file, plain or gzip.
  explicit text_lines(const std::filesystem::path& file);
  /// Reads `in`, which must outlive this, a line at a time. `name` stands in messages.
  text_lines(std::istream& in, std::string name);

  const std::filesystem::path& file() const noexcept { return file_; }
  /// The next line, valid until the next call; nothing at the end.
  std::optional<std::string_view> next();
  /// The number of the line that next() returned last.
  file_line number() const noexcept { return {number_}; }
  /// "UTF-8", "UTF-16 LE", "UTF-16 BE", "Windows-1252", or "UTF-8 and Windows-1252", as far as was read.
  std::string_view encoding() const noexcept;

private:
  enum class byte_order : std::uint8_t { none, little, big }; ///< of UTF-16

  bool refill();
  void begin();
  void decode();
  std::optional<std::string_view> cut();
  std::string_view in_utf8(std::string_view line);

  std::filesystem::path file_;
  std::function<bool(std::string&)> more_; ///< appends bytes; false at the end
  std::string raw_;                        ///< bytes of UTF-16 that are not decoded yet
  std::string text_;
  std::string converted_;              ///< the line that was returned last, if it was in Windows-1252
  std::size_t begin_ = 0;              ///< of what is not given out yet
  std::size_t searched_ = 0;           ///< before here, no "\n" stands in `text_` that is not known
  std::optional<std::size_t> newline_; ///< the next "\n", once it is known
  byte_order order_ = byte_order::none;
  bool begun_ = false;
  bool finished_ = false;
  std::uint64_t number_ = 0;
  std::uint64_t utf8_lines_ = 0;    ///< with characters beyond ASCII
  std::uint64_t windows_lines_ = 0; ///< likewise
};

/// `text` in UTF-8, if a byte-order mark or a zero byte at its beginning says that it is UTF-16; a part of a
/// character at its end is dropped. Otherwise `text` as it is, without a byte-order mark.
std::string beginning_in_utf8(std::string_view text);

} // namespace mailgrad
