#pragma once

#include <mailgrad/data/formats/label_map.hpp>

#include <span>

namespace mailgrad {

/// What becomes of a row in which a value is missing.
enum class missing_values : std::uint8_t {
  refuse, ///< the file is refused
  drop,   ///< the row is left out
  mean,   ///< the mean of the column, over the training part, stands in its place
};

enum class column_kind : std::uint8_t {
  unknown,  ///< no row has shown it yet
  number,   ///< one number of the sample
  category, ///< a number of the sample for each category: 1 for that of the row, and 0 for the others
  left_out, ///< no number of the sample
};

struct table_column {
  std::string name{}; ///< in the header; empty if there is none
  column_kind kind = column_kind::unknown;
  std::vector<std::string> categories{}; ///< in the order of their numbers
  number_signs signs{};                  ///< how its numbers are written

  /// The numbers of a sample that the column becomes.
  std::size_t width() const noexcept;
};

/// How the rows of a table become samples. It is learnt from the training file, and kept with a trained
/// model, so that other rows are read in the same way.
struct table_layout {
  std::vector<table_column> columns{}; ///< of the features, in the order of the file, without the label's
  std::size_t label = 0;               ///< the number of the label's column in the file, from 0
  missing_values missing = missing_values::refuse;
  /// float32[width()], if `missing` is `mean`. That of a category is the share of rows that have it.
  std::vector<float> means{};
  number_signs label_signs{}; ///< how its numbers are written
  std::string label_name{};   ///< in the header; empty if there is none

  /// The numbers of a sample.
  std::size_t width() const noexcept;
  /// Whether a sample is more than the numbers of its row.
  bool is_plain() const noexcept;
};

/// Whether the column has categories that begin with '#', as comments do elsewhere.
bool begins_with_hashes(const table_column& column);

/// Whether a field is a value rather than the name of a column: a number, or a word for a missing value.
bool is_no_name(std::string_view field) noexcept;

/// Whether these fields, without the label's, are the names of the columns and not a row: one of them is the
/// name of its column, or none is a number though there are columns of numbers.
bool are_names(const table_layout& layout, std::span<const std::string_view> fields);

/// What is wrong with these names of columns, without the label's: "expected a column called 'b', as in
/// training, found 'c'". Empty: nothing.
std::string wrong_name(const table_layout& layout, std::span<const std::string_view> names);

/// The same of one column. A column without a known name may have any.
std::string wrong_name(std::string_view known, std::string_view found);

/// Whether a field has no value: it is empty, "?", "NA", "N/A", "#N/A", "<NA>", "NaN" or "null", in capitals
/// or not.
bool is_missing(std::string_view field) noexcept;

/// Reads fields as one number each, which expand() turns into the numbers of samples: a number as itself, by
/// the signs of its column; a word as the number of its category, a missing value as NaN.
///
/// Categories are open while a training file is read, and their numbers are preliminary until settle().
/// Threads one caller at a time.
class field_numbers {
public:
  static constexpr std::size_t most_categories = 4096;

  /// `layout` must outlive this. Its columns without categories are open.
  explicit field_numbers(table_layout& layout);
  /// The number of a field of column `column`. Nothing if the field is not what the column holds, as
  /// expected() says. The first value of a column of unknown kind says which kind it is.
  std::optional<float> read(std::size_t column, std::string_view field);
  /// What read() takes: "a finite number", "one of the 3 words 'a', 'b', 'c'".
  std::string expected(std::size_t column) const;
  /// Gives categories their final numbers, in `rows` and in the layout.
  /// Shapes  rows: float32[n, columns that are not left out].
  void settle(std::vector<float>& rows);

private:
  table_layout& layout_;
  std::vector<label_map> categories_; ///< by column
  std::vector<bool> holds_words_;     ///< by column: its first value was a word, so it holds no numbers
};

/// Turns rows of one number a column into samples. A missing value becomes its means, or NaN if there are
/// none.
/// Shapes  rows: float32[n, columns that are not left out]; result: float32[n, layout.width()].
std::vector<float> expand(const table_layout& layout, std::vector<float> rows);

} // namespace mailgrad
