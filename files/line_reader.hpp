#pragma once

#include <mailgrad/files/byte_source.hpp>
#include <mailgrad/files/file_error.hpp>

#include <optional>
#include <string_view>

namespace mailgrad {

/// What some programs write before the first character of a text in UTF-8.
inline constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

/// The lines of a text file, without their ends ("\n" or "\r\n") and without a byte-order mark.
///
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
