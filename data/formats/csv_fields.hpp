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
/// a field are dropped.
/// Source  RFC 4180, as libcsv reads it. Differs: a field ends with its line.
/// Threads one caller at a time.
class csv_fields {
public:
  explicit csv_fields(char delimiter);
  csv_fields(csv_fields&&) noexcept;
  ~csv_fields();

  /// Fills `out`, whose fields are valid until the next call.
  ///
  /// Returns false if a double quote is open at the end of the line, or stands within a field that is not
  ///         quoted. The contents of `out` are then unspecified.
  bool split(std::string_view line, std::vector<std::string_view>& out);

private:
  struct parser;

  char delimiter_;
  std::unique_ptr<parser> parser_;
  std::string text_;              ///< all fields, one behind the other
  std::vector<std::size_t> ends_; ///< where each field ends in `text_`
};

/// Returns the comma, semicolon or tab that occurs most often outside of double quotes.
char most_frequent_delimiter(std::string_view line);

} // namespace mailgrad
