#pragma once

#include <mailgrad/data/dataset.hpp>
#include <mailgrad/data/formats/label_map.hpp>
#include <mailgrad/data/formats/parsed_limit.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace mailgrad {

/// Which column holds the label. `automatic` takes the first column if it holds words and the last one does
/// not. It also takes the first if the header calls it label, class, target or y. Otherwise it takes the last
/// column.
enum class csv_label : std::uint8_t { automatic, first, last };

/// Whether the first line names the columns. `automatic` takes it for a header if none of its fields is a
/// number.
enum class csv_header : std::uint8_t { automatic, present, absent };

struct csv_options {
  csv_label label = csv_label::automatic;
  csv_header header = csv_header::automatic;
  char delimiter = 0;      ///< 0: the comma, semicolon or tab that is most frequent in the first line
  std::size_t columns = 0; ///< including the label; 0: as many as the first line has
  label_kind holds = label_kind::classes; ///< what the column of labels holds
  parsed_limit limit{};                   ///< for all rows together
};

/// The rows of a file. Each line holds one row: a label and numbers.
struct csv_rows {
  float_features features;
  std::vector<std::int32_t> labels;
  std::vector<float> targets; ///< in place of labels, where that column holds numbers
  csv_options layout;         ///< the layout found, which a test file must have, too
};

/// Reads delimited text, plain or gzip. Fields may have double quotes and blanks around them; csv_fields
/// gives the rules.
///
/// A training file needs `labels` open and settles them; a test file needs them settled. Targets use none.
/// Shapes  {columns - 1}.
/// Errors  file_error: no rows; more rows than the limit has room for; another number of columns; double
///         quotes that do not stand around a whole field; a field or a target that is no finite number; a
///         label that `labels` refuses.
csv_rows read_csv(const std::filesystem::path& file, const csv_options& options, label_map& labels);

} // namespace mailgrad
