#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace mailgrad {

/// Splits lines of delimited text into fields.
///
/// A field in double quotes may hold the delimiter, and two double quotes in it stand for one. Blanks around
/// a field do not count.
/// Source  RFC 4180, as libcsv reads it; but a field ends with its line.
/// Threads one caller at a time.
class csv_fields {
public:
  explicit csv_fields(char delimiter);
  csv_fields(csv_fields&&) noexcept;
  ~csv_fields();

  /// Fills `out`, whose fields are valid until the next call.
  ///
  /// Returns false if a double quote is open at the end of the line, or stands within a field that has none
  ///         around it; `out` is then worth nothing.
  bool split(std::string_view line, std::vector<std::string_view>& out);

private:
  struct parser;

  char delimiter_;
  std::unique_ptr<parser> parser_;
  std::string text_;              ///< of all fields, one behind the other
  std::vector<std::size_t> ends_; ///< of each in it
};

/// The comma, semicolon or tab that stands most often outside of double quotes.
char most_frequent_delimiter(std::string_view line);

} // namespace mailgrad
