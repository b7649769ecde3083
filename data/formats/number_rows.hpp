#pragma once

#include <mailgrad/data/formats/csv_fields.hpp>

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mailgrad {

/// Rows of delimited numbers without labels, read one after the other from a file or from standard input. A
/// first line without any number is a header. The delimiter is the most frequent one of the first line.
/// Windows line ends and a byte-order mark are dropped.
///
/// Errors  file_error with the line: another number of columns, a field that is no finite number, or a double
///         quote out of place.
/// Threads one caller at a time.
class number_rows {
public:
  /// `name` stands in messages; `in` must outlive the rows.
  number_rows(std::istream& in, std::string name, std::size_t columns);

  /// Appends the numbers of the next row. False at the end, and nothing is appended then.
  bool next(std::vector<float>& to);

private:
  bool read_line();
  bool is_header();

  std::istream& in_;
  std::string name_;
  std::size_t columns_;
  std::uint64_t number_ = 0; ///< of the line
  std::string line_;
  std::optional<csv_fields> splitter_;
  std::vector<std::string_view> fields_;
};

} // namespace mailgrad
