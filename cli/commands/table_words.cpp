#include <mailgrad/cli/commands/table_words.hpp>

#include <mailgrad/cli/option_checks.hpp>
#include <mailgrad/data/formats/csv_fields.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <limits>
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

void add_table_form(CLI::App& parser, table_words& w, const std::string& group) {
  parser
      .add_option("--header", w.header,
                  "For CSV: whether the first line names the columns; auto decides by the lines below it")
      ->check(one_of({"auto", "yes", "no"}))
      ->capture_default_str()
      ->group(group);
  parser
      .add_option(
          "--delimiter", w.delimiter,
          "For CSV: the character between two fields, or tab; by default the comma, semicolon, tab or bar "
          "that fits the first lines best")
      ->check(file_name())
      ->type_name("CHARACTER")
      ->group(group);
  parser
      .add_option("--decimal", w.decimal,
                  "For CSV: the sign that begins the fraction of a number; auto decides by the numbers of "
                  "each column, or takes that of training")
      ->check(one_of({"auto", "point", "comma"}))
      ->capture_default_str()
      ->group(group);
}

void add_table(CLI::App& parser, table_words& w, const std::string& group) {
  parser
      .add_option(
          "--label", w.label,
          "For CSV: the column to learn: its name in the header, its number from 1, first or last; by "
          "default the one whose name is label, class or target, or the first if it holds words and the last "
          "does not; otherwise the last")
      ->check(file_name())
      ->type_name("COLUMN")
      ->group(group);
  add_table_form(parser, w, group);
  parser
      .add_option(
          "--missing", w.missing,
          "For CSV: what becomes of a row without some value (an empty field, ?, NA, N/A, NaN or null): "
          "refuse the file, drop the row, or take the mean of the column over the training part")
      ->check(one_of({"refuse", "drop", "mean"}))
      ->capture_default_str()
      ->group(group);
  parser
      .add_option(
          "--categories", w.categories,
          "For CSV: columns of categories that are written as numbers, between commas. Columns of words "
          "are taken for categories anyway: each category becomes an input that is 1 or 0. A name with a "
          "comma "
          "in it stands in double quotes")
      ->allow_extra_args(false)
      ->type_name("COLUMN,...")
      ->group(group);
  parser
      .add_option("--leave-out", w.left_out,
                  "For CSV: columns that are not learnt from, such as names and keys, between commas")
      ->allow_extra_args(false)
      ->type_name("COLUMN,...")
      ->group(group);
  parser
      .add_option(
          "--features", w.features,
          "For libsvm: how many columns a row has, where the test part, or rows to predict later, have more "
          "than the training part shows")
      ->check(whole_number(1, std::numeric_limits<std::int32_t>::max()))
      ->type_name("NUMBER")
      ->group(group);
  parser
      .add_option(
          "--pictures", w.pictures,
          "For PNG and JPEG pictures: grey, rgb, or auto, which takes colours if the first picture has some")
      ->check(one_of({"auto", "grey", "rgb"}))
      ->capture_default_str()
      ->group(group);
  parser
      .add_option(
          "--test-fraction", w.test_fraction,
          "The part of a file to test on, between 0 and 1, even if a test file lies beside it; drawn by "
          "--seed, from each class in proportion. By default 0.2 where there is no test file, and 0.1 "
          "of a text, from its end")
      ->check(number(0, 1))
      ->type_name("NUMBER")
      ->group(group);
}

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
