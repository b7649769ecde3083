#pragma once

#include <mailgrad/data/formats/csv.hpp>
#include <mailgrad/data/formats/csv_fields.hpp>

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mailgrad {

/// How rows are written.
struct row_options {
  table_layout table{}; ///< of the file that a model was trained on; without columns all are numbers
  csv_header header = csv_header::automatic;
  char delimiter = 0; ///< 0: the comma, semicolon or tab that is most frequent in the first line
};

/// Rows of delimited fields without labels, read one after the other from a file or from standard input.
/// Words and missing values become numbers as in training. Windows line ends and a byte-order mark are
/// dropped.
///
/// Errors  file_error with the line: another number of columns, or a header with other names than in
///         training; a field that is not what its column holds; a missing value, unless means stand in for
///         those; a double quote out of place; an empty line before a row.
/// Threads one caller at a time.
class number_rows {
public:
  /// `name` stands in messages; `in` must outlive the rows. A row becomes `numbers` numbers.
  number_rows(std::istream& in, std::string name, std::size_t numbers, row_options options = {});

  /// Appends the numbers of the next row. False at the end, and nothing is appended then.
  bool next(std::vector<float>& to);

private:
  bool find_line();
  bool read_line();
  bool is_header() const;
  bool find_first_row();
  [[noreturn]] void fail(std::string_view why) const;

  std::istream& in_;
  std::string name_;
  row_options options_;
  field_numbers fields_as_numbers_;
  std::vector<float> row_;   ///< a number a field
  std::uint64_t number_ = 0; ///< of the line
  std::string line_;
  std::optional<csv_fields> splitter_;
  std::vector<std::string_view> fields_;
};

} // namespace mailgrad
