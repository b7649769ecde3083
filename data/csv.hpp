#pragma once

#include <mailgrad/data/dataset.hpp>
#include <mailgrad/data/label_map.hpp>
#include <mailgrad/data/parsed_limit.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace mailgrad {

/// Which column holds the label. `automatic`: the first or last one, whichever holds words where the others
/// hold numbers, or is called label, class, target or y in the header; the last otherwise.
enum class csv_label : std::uint8_t { automatic, first, last };

/// Whether the first line names the columns. `automatic`: it does if none of its fields is a number.
enum class csv_header : std::uint8_t { automatic, present, absent };

struct csv_options {
  csv_label label = csv_label::automatic;
  csv_header header = csv_header::automatic;
  char delimiter = 0;      ///< 0: the comma, semicolon or tab that is most frequent in the first line
  std::size_t columns = 0; ///< with the label; 0: as many as the first line has
  label_kind holds = label_kind::classes; ///< the column of labels
  parsed_limit limit{};                   ///< of the rows together
};

/// One row a line, a label and numbers.
struct csv_rows {
  float_features features;
  std::vector<std::int32_t> labels;
  std::vector<float> targets; ///< in their place, where the column of labels holds numbers
  csv_options layout;         ///< as found: what the test file must look like, too
};

/// Reads delimited text, plain or gzip. Fields may stand in double quotes, as csv_fields has it, and have
/// blanks around them.
///
/// A training file finds `labels` open and settles them; a test file finds them settled. Targets need none.
/// Shapes  {columns - 1}.
/// Errors  file_error: no rows; more of them than the limit has room for; another number of columns; double
///         quotes that do not stand around a whole field; a field that is no finite number; a label that
///         `labels` refuses, or a target that is no finite number.
csv_rows read_csv(const std::filesystem::path& file, const csv_options& options, label_map& labels);

} // namespace mailgrad
