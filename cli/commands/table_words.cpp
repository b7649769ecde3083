#include <mailgrad/cli/commands/table_words.hpp>

#include <mailgrad/data/formats/csv_fields.hpp>

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace mailgrad {

namespace {

/// 0: not given.
char delimiter_in(const table_words& w) {
  if (w.delimiter.empty()) return 0;
  if (w.delimiter == "tab" || w.delimiter == "\\t") return '\t';
  const char c = w.delimiter.front();
  const bool taken = c == '"' || c == '\n' || c == '\r' || static_cast<unsigned char>(c) >= 0x80;
  if (w.delimiter.size() != 1 || taken)
    throw std::invalid_argument(fmt::format(
        "--delimiter '{}': expected one character, such as ';' or '|', or the word tab", w.delimiter));
  return c;
}

csv_header header_in(const table_words& w) {
  if (w.header == "auto") return csv_header::automatic;
  return w.header == "yes" ? csv_header::present : csv_header::absent;
}

/// The columns that are listed as in a line of CSV, so that a name may have a comma in it.
std::vector<std::string> columns_in(const std::vector<std::string>& lists, std::string_view option) {
  std::vector<std::string> columns;
  csv_fields splitter(',');
  std::vector<std::string_view> names;
  for (const std::string& list : lists) {
    if (splitter.add(list) != csv_fields::record::whole)
      throw std::invalid_argument(
          fmt::format("{} '{}': expected double quotes around the whole of a name", option, list));
    splitter.list(names);
    columns.insert(columns.end(), names.begin(), names.end());
  }
  return columns;
}

/// 0: not given.
char decimal_in(const table_words& w) {
  return w.decimal == "auto" ? '\0' : w.decimal == "comma" ? ',' : '.';
}

} // namespace

void apply(const table_words& w, open_options& o) {
  csv_options& c = o.csv;
  c.header = header_in(w);
  c.delimiter = delimiter_in(w);
  c.decimal = decimal_in(w);
  c.categories = columns_in(w.categories, "--categories");
  c.left_out = columns_in(w.left_out, "--leave-out");
  if (w.label == "first" || w.label == "last") {
    c.label = w.label == "first" ? csv_label::first : csv_label::last;
  } else if (!w.label.empty()) {
    c.label = csv_label::named;
    c.label_column = w.label;
  }
  if (w.missing != "refuse") c.missing = w.missing == "drop" ? missing_values::drop : missing_values::mean;
  o.features = w.features;
  if (w.pictures != "auto")
    o.channels = w.pictures == "grey" ? picture_channels::grey : picture_channels::rgb;
  if (!w.test_fraction) return;
  if (!(*w.test_fraction > 0 && *w.test_fraction < 1))
    throw std::invalid_argument("--test-fraction: expected a number between 0 and 1, neither of them");
  o.files.train_fraction = 1 - *w.test_fraction;
}

row_options rows_as(const table_words& w, table_layout table) {
  return {std::move(table), header_in(w), decimal_in(w), delimiter_in(w)};
}

} // namespace mailgrad
