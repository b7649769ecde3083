#include <mailgrad/data/formats/csv.hpp>

#include <mailgrad/data/formats/csv_columns.hpp>
#include <mailgrad/data/formats/csv_fields.hpp>
#include <mailgrad/files/file_error.hpp>
#include <mailgrad/files/line_reader.hpp>
#include <mailgrad/options/number.hpp>

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace mailgrad {

namespace {

/// Turns lines into rows. The first line shows the layout.
class csv_reader {
public:
  csv_reader(line_reader& lines, const csv_options& options, label_map& labels)
      : lines_(lines), labels_(labels) {
    rows_.layout = options;
  }

  csv_rows parse() {
    auto line = lines_.next();
    if (!line) throw_malformed(lines_.file(), "expected rows of numbers, found an empty file");
    line = learn_layout(*line);
    for (; line; line = lines_.next()) add(*line);
    if (answers() == 0) fail_without_rows();
    return finished();
  }

private:
  std::optional<std::string_view> learn_layout(std::string_view line);
  void split(std::string_view line);
  void require_columns() const;
  void add(std::string_view line);
  bool add_features();
  void add_label(std::string_view field, std::size_t column);
  [[noreturn]] void fail(const std::string& expected, std::size_t column, std::string_view hint = {}) const;
  [[noreturn]] void fail_without_rows() const;
  csv_rows finished();

  std::size_t answers() const { return rows_.labels.size() + rows_.targets.size(); }

  line_reader& lines_;
  label_map& labels_;
  csv_rows rows_;
  std::optional<csv_fields> splitter_;   ///< once the delimiter is known
  std::optional<field_numbers> numbers_; ///< once the columns are known
  std::vector<std::string_view> fields_;
  std::vector<float> values_; ///< a number for each field that is a feature
};

/// Returns the first row, which is the line itself where there is no header.
std::optional<std::string_view> csv_reader::learn_layout(std::string_view line) {
  csv_options& layout = rows_.layout;
  if (layout.delimiter == 0) layout.delimiter = most_frequent_delimiter(line);
  splitter_.emplace(layout.delimiter);
  split(line);
  if (!layout.table.columns.empty()) layout.columns = layout.table.columns.size() + 1;
  if (layout.columns == 0) layout.columns = fields_.size();
  if (layout.columns < 2)
    throw_malformed(lines_.file(), lines_.number(),
                    fmt::format("expected a label and numbers between commas, found {}", in_quotes(line)));
  require_columns();
  const bool has_header = is_csv_header(layout, fields_);
  layout.header = has_header ? csv_header::present : csv_header::absent;
  std::optional<std::string_view> row = line;
  std::vector<std::string> names;
  const file_line first = lines_.number();
  if (has_header) {
    names.assign(fields_.begin(), fields_.end());
    row = lines_.next();
    if (!row) fail_without_rows();
    split(*row);
    require_columns();
  }
  const std::vector<std::string_view> header(names.begin(), names.end());
  learn_csv_columns(layout, header, fields_, lines_.file(), first);
  numbers_.emplace(layout.table);
  return row;
}

void csv_reader::split(std::string_view line) {
  if (!splitter_->split(line, fields_))
    throw_malformed(
        lines_.file(), lines_.number(),
        "expected double quotes around the whole of a field, found one that is open or within it");
}

void csv_reader::require_columns() const {
  if (fields_.size() != rows_.layout.columns)
    throw_malformed(lines_.file(), lines_.number(),
                    fmt::format("expected {} columns, found {}", rows_.layout.columns, fields_.size()));
}

void csv_reader::add(std::string_view line) {
  split(line);
  require_columns();
  const csv_options& layout = rows_.layout;
  const std::size_t before = values_.size();
  const std::size_t label = layout.table.label;
  const bool drops = layout.table.missing == missing_values::drop;
  if ((!add_features() || is_missing(fields_[label])) && drops) {
    values_.resize(before);
    ++rows_.dropped;
    return;
  }
  add_label(fields_[label], label);
  layout.limit.require(lines_.file(), sizeof(float) * (values_.size() + answers()));
}

/// Returns whether no value is missing.
bool csv_reader::add_features() {
  const table_layout& table = rows_.layout.table;
  bool whole = true;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    if (table.columns[i].kind == column_kind::left_out) continue;
    const std::size_t column = i + (i >= table.label ? 1 : 0);
    const std::optional<float> number = numbers_->read(i, fields_[column]);
    if (!number) fail(numbers_->expected(i), column);
    whole = whole && !std::isnan(*number);
    if (!whole && table.missing == missing_values::refuse)
      fail(numbers_->expected(i), column,
           "; --missing drop or mean (csv_options::missing) takes rows without a value");
    values_.push_back(*number);
  }
  return whole;
}

void csv_reader::add_label(std::string_view field, std::size_t column) {
  if (rows_.layout.holds == label_kind::numbers) {
    const auto number = parse_number(field);
    if (!number || !fits_float(*number)) fail("a finite number", column);
    rows_.targets.push_back(static_cast<float>(*number));
    return;
  }
  const auto label = labels_.find(field);
  if (!label)
    throw_malformed(lines_.file(), lines_.number(),
                    fmt::format("expected {}, found {}{}", labels_.expected(), in_quotes(field),
                                parse_number(field) ? "; a number to predict is a task of regression" : ""));
  rows_.labels.push_back(*label);
}

void csv_reader::fail(const std::string& expected, std::size_t column, std::string_view hint) const {
  throw_malformed(lines_.file(), lines_.number(),
                  fmt::format("expected {} in column {}, found {}{}", expected, column + 1,
                              in_quotes(fields_[column]), hint));
}

void csv_reader::fail_without_rows() const {
  if (rows_.dropped > 0)
    throw_malformed(lines_.file(),
                    fmt::format("expected a row without missing values, found none among {}", rows_.dropped));
  throw_malformed(lines_.file(), lines_.number(), "expected rows after the header, found the end");
}

csv_rows csv_reader::finished() {
  table_layout& table = rows_.layout.table;
  numbers_->settle(values_);
  for (std::size_t i = 0; i < table.columns.size(); ++i)
    if (table.columns[i].kind == column_kind::unknown || table.columns[i].kind == column_kind::category)
      if (table.columns[i].categories.empty())
        throw_malformed(lines_.file(), fmt::format("expected a value in column {}, found none in any row",
                                                   i + (i >= table.label ? 2 : 1)));
  if (!table.is_plain())
    rows_.layout.limit.require(lines_.file(), sizeof(float) * (answers() * table.width() + answers()));
  rows_.features = {{table.width()}, expand(table, std::move(values_))};
  return std::move(rows_);
}

} // namespace

csv_rows read_csv(const std::filesystem::path& file, const csv_options& options, label_map& labels) {
  line_reader lines{file};
  csv_rows rows = csv_reader{lines, options, labels}.parse();
  if (labels.is_open() && options.holds == label_kind::classes) labels.settle(rows.labels);
  return rows;
}

} // namespace mailgrad
