#pragma once

#include <mailgrad/data/formats/number_rows.hpp>
#include <mailgrad/data/open.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mailgrad {

/// The values of the options on tables, as CSV files are, on sparse rows, on pictures, and on the part that
/// is cut off for testing.
struct table_words {
  std::string label;
  std::string header = "auto";
  std::string delimiter;
  std::string decimal = "auto";
  std::string missing = "refuse";
  std::vector<std::string> categories;
  std::vector<std::string> left_out;
  std::string pictures = "auto";
  std::uint64_t features = 0;
  std::optional<double> test_fraction;
};

/// Puts the words into the options for opening data.
///
/// Errors  std::invalid_argument, in one line, for a delimiter that is none.
void apply(const table_words& w, open_options& o);

/// How rows without labels are written, for a model that knows the table.
row_options rows_as(const table_words& w, table_layout table);

} // namespace mailgrad
