#pragma once

#include <mailgrad/data/formats/csv.hpp>
#include <mailgrad/data/formats/csv_fields.hpp>
#include <mailgrad/files/npy_file.hpp>

namespace mailgrad {

struct row_options {
  table_layout table{}; ///< of the file that a model was trained on; without columns all are numbers
  csv_header header = csv_header::automatic;
  char decimal = 0;   ///< the decimal sign of all numbers, '.' or ','; 0: as in training
  char delimiter = 0; ///< 0: the comma, semicolon, tab or bar that fits the first row
};

/// Rows of delimited fields without labels, read one after the other from a file or from standard input.
/// Words and missing values become numbers as in training, and numbers are written as there. Any encoding of
/// text_lines will do. Comments are passed over, as by csv_records.
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

  // How the rows that were read are written.
  std::string_view encoding() const noexcept { return records_.encoding(); }
  char delimiter() const noexcept { return records_.delimiter(); }
  bool has_header() const noexcept { return has_header_; }

private:
  bool read_record();
  bool is_header() const {
    if (options_.header != csv_header::automatic) return options_.header == csv_header::present;
    return are_names(options_.table, records_.fields());
  }
  bool find_first_row();
  [[noreturn]] void fail(file_line where, std::string_view why) const { throw_malformed(name_, where, why); }

  std::string name_;
  row_options options_;
  field_numbers fields_as_numbers_;
  csv_records records_;
  bool begun_ = false;
  bool has_header_ = false;
  std::vector<float> row_; ///< a number a field
};

/// The samples of an array of numpy without answers, read one after the other. The first axis counts them.
///
/// The other axes are those of a sample, where axes of extent 1 count for nothing; or they are one axis with
/// all its numbers.
/// Errors  file_error: samples of another shape, a number that is infinite or NaN, and as npy_file.
/// Threads one caller at a time.
class array_rows {
public:
  /// `dims` is the shape of a sample; it has a number.
  array_rows(const std::filesystem::path& file, const shape& dims);
  /// Appends the numbers of the next sample. False at the end, and nothing is appended then.
  bool next(std::vector<float>& to);

private:
  npy_file array_;
  std::size_t numbers_;  ///< of a sample
  std::size_t done_ = 0; ///< samples that have been read
};

} // namespace mailgrad
