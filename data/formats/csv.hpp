#pragma once

#include <mailgrad/data/dataset.hpp>

namespace mailgrad {

/// Which column holds the label. `automatic` takes the column that the header calls label, class or target,
/// or y at either end of it. Else it takes the first column if that holds words and the last one holds
/// numbers, unless these words tell all rows apart. Otherwise it takes the last column that has values.
/// `named` takes the column that csv_options::label_column says.
enum class csv_label : std::uint8_t { automatic, first, last, named };

/// Whether the first line names the columns. `automatic` takes it for a header if it has the name of a column
/// that is asked for; if its words stand over columns of numbers; if it counts the columns; or if all of its
/// fields are words, no two are the same, and none stands below in its column.
enum class csv_header : std::uint8_t { automatic, present, absent };

/// Whether the labels of rows matter. Where they are passed over, they may be missing or unknown.
enum class csv_answers : std::uint8_t { needed, passed_over };

/// Columns are told by their names in the header, or by their numbers from 1.
struct csv_options {
  csv_label label = csv_label::automatic;
  csv_header header = csv_header::automatic;
  char delimiter = 0;      ///< 0: the comma, semicolon, tab or bar that fits the first lines best
  char decimal = 0;        ///< the decimal sign of all numbers, '.' or ','; 0: as each column shows
  std::size_t columns = 0; ///< including the label; 0: as many as the first line has
  label_kind holds = label_kind::classes; ///< what the column of labels holds
  parsed_limit limit{};                   ///< for all rows together
  std::string label_column{};             ///< for csv_label::named
  missing_values missing = missing_values::refuse;
  std::vector<std::string> categories{}; ///< columns of categories that are written as numbers
  std::vector<std::string> left_out{};   ///< columns that are no features
  csv_answers answers = csv_answers::needed;
  /// What is known of the columns. Without any column it is learnt from the file.
  table_layout table{};
};

/// The rows of a file. Each line holds one row: a label and features.
struct csv_rows {
  float_features features; ///< missing values are NaN where their means are not known yet
  std::vector<std::int32_t> labels;
  std::vector<float> targets; ///< in place of labels, where that column holds numbers
  csv_options layout;         ///< the layout found, which a test file must have, too
  std::size_t dropped = 0;    ///< rows that were left out because of missing values
  std::size_t missing = 0;    ///< fields without a value, in these rows too
  std::size_t comments = 0;   ///< passed over below the first record
};

struct csv_survey;

/// Reads delimited text, plain or gzip, in an encoding of text_lines. csv_fields gives the rules for fields,
/// csv_records those for comments and empty lines, and spelled_number() those for numbers. A column that
/// holds more words than numbers holds categories; table_column says what becomes of them.
///
/// A training file needs `labels` open and settles them; a test file needs them settled. Targets use none.
/// Shapes  {layout.table.width()}.
/// Errors  file_error: as survey_csv(); more rows than the limit has room for; a field that is not what its
///         column holds; a value or a label that is missing, unless `missing` says what becomes of it; a
///         label that `labels` refuses.
csv_rows read_csv(const std::filesystem::path& file, const csv_options& options, label_map& labels);
/// The same of a file that was surveyed.
csv_rows read_surveyed_csv(const std::filesystem::path& file, const csv_survey& survey, label_map& labels);

} // namespace mailgrad
