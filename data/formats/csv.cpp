#include <mailgrad/data/formats/csv.hpp>

#include <mailgrad/data/formats/csv_fields.hpp>
#include <mailgrad/files/file_error.hpp>
#include <mailgrad/files/line_reader.hpp>
#include <mailgrad/options/number.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace mailgrad {

namespace {

using fields = std::vector<std::string_view>;

bool is_number(std::string_view field) { return parse_number(field).has_value(); }

bool names_a_label(std::string_view field) {
  constexpr std::array<std::string_view, 4> names{"label", "class", "target", "y"};
  std::string lower(field);
  std::ranges::transform(lower, lower.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c; });
  return std::ranges::find(names, lower) != names.end();
}

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
    if (rows_.features.values.empty())
      throw_malformed(lines_.file(), lines_.number(), "expected rows after the header, found the end");
    return std::move(rows_);
  }

private:
  std::optional<std::string_view> learn_layout(std::string_view line);
  void find_label(bool first_by_name, const fields& row);
  void split(std::string_view line);
  void add(std::string_view line);
  float finite(std::string_view field, std::size_t column) const;
  void add_label(std::string_view field, std::size_t column);

  line_reader& lines_;
  label_map& labels_;
  csv_rows rows_;
  std::optional<csv_fields> splitter_; ///< once the delimiter is known
  fields fields_;
};

/// Returns the first row, which is the line itself where there is no header.
std::optional<std::string_view> csv_reader::learn_layout(std::string_view line) {
  csv_options& layout = rows_.layout;
  if (layout.delimiter == 0) layout.delimiter = most_frequent_delimiter(line);
  splitter_.emplace(layout.delimiter);
  split(line);
  if (layout.columns == 0) layout.columns = fields_.size();
  if (layout.columns < 2)
    throw_malformed(lines_.file(), lines_.number(),
                    fmt::format("expected a label and numbers between commas, found {}", in_quotes(line)));
  rows_.features.dims = {layout.columns - 1};
  if (layout.header == csv_header::automatic)
    layout.header = std::ranges::none_of(fields_, is_number) ? csv_header::present : csv_header::absent;
  if (layout.header == csv_header::absent) {
    find_label(false, fields_);
    return line;
  }
  const bool label_is_first = names_a_label(fields_.front());
  const auto first_row = lines_.next();
  if (first_row) split(*first_row);
  find_label(label_is_first, fields_);
  return first_row;
}

void csv_reader::find_label(bool first_by_name, const fields& row) {
  csv_label& label = rows_.layout.label;
  if (label != csv_label::automatic) return;
  const bool first_by_word = !is_number(row.front()) && is_number(row.back());
  label = first_by_name || first_by_word ? csv_label::first : csv_label::last;
}

void csv_reader::split(std::string_view line) {
  if (!splitter_->split(line, fields_))
    throw_malformed(
        lines_.file(), lines_.number(),
        "expected double quotes around the whole of a field, found one that is open or within it");
}

void csv_reader::add(std::string_view line) {
  split(line);
  const std::size_t columns = rows_.layout.columns;
  if (fields_.size() != columns)
    throw_malformed(lines_.file(), lines_.number(),
                    fmt::format("expected {} columns, found {}", columns, fields_.size()));
  const std::size_t label_column = rows_.layout.label == csv_label::first ? 0 : columns - 1;
  add_label(fields_[label_column], label_column);
  for (std::size_t column = 0; column < columns; ++column)
    if (column != label_column) rows_.features.values.push_back(finite(fields_[column], column));
  rows_.layout.limit.require(lines_.file(), sizeof(float) * (rows_.features.values.size() +
                                                             rows_.labels.size() + rows_.targets.size()));
}

float csv_reader::finite(std::string_view field, std::size_t column) const {
  const auto number = parse_number(field);
  if (!number || !fits_float(*number))
    throw_malformed(
        lines_.file(), lines_.number(),
        fmt::format("expected a finite number in column {}, found {}", column + 1, in_quotes(field)));
  return static_cast<float>(*number);
}

void csv_reader::add_label(std::string_view field, std::size_t column) {
  if (rows_.layout.holds == label_kind::numbers) {
    rows_.targets.push_back(finite(field, column));
    return;
  }
  const auto label = labels_.find(field);
  if (!label)
    throw_malformed(lines_.file(), lines_.number(),
                    fmt::format("expected {}, found {}{}", labels_.expected(), in_quotes(field),
                                is_number(field) ? "; a number to predict is a task of regression" : ""));
  rows_.labels.push_back(*label);
}

} // namespace

csv_rows read_csv(const std::filesystem::path& file, const csv_options& options, label_map& labels) {
  line_reader lines{file};
  csv_rows rows = csv_reader{lines, options, labels}.parse();
  if (labels.is_open() && options.holds == label_kind::classes) labels.settle(rows.labels);
  return rows;
}

} // namespace mailgrad
