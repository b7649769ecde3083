#include <mailgrad/data/csv.hpp>

#include <mailgrad/files/error.hpp>
#include <mailgrad/files/line_reader.hpp>
#include <mailgrad/options/number.hpp>

#include <algorithm>
#include <array>

namespace mailgrad {

namespace {

using fields = std::vector<std::string_view>;

std::string_view trimmed(std::string_view field) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!field.empty() && blank(field.front())) field.remove_prefix(1);
  while (!field.empty() && blank(field.back())) field.remove_suffix(1);
  if (field.size() >= 2 && field.front() == '"' && field.back() == '"')
    field = field.substr(1, field.size() - 2);
  return field;
}

void split(std::string_view line, char delimiter, fields& out) {
  out.clear();
  while (true) {
    const auto end = line.find(delimiter);
    out.push_back(trimmed(line.substr(0, end)));
    if (end == std::string_view::npos) return;
    line.remove_prefix(end + 1);
  }
}

char most_frequent_delimiter(std::string_view line) {
  constexpr std::array delimiters{',', ';', '\t'};
  return *std::ranges::max_element(delimiters, {}, [&](char c) { return std::ranges::count(line, c); });
}

bool is_number(std::string_view field) { return parse_number(field).has_value(); }

bool names_a_label(std::string_view field) {
  constexpr std::array<std::string_view, 4> names{"label", "class", "target", "y"};
  std::string lower(field);
  std::ranges::transform(lower, lower.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c; });
  return std::ranges::find(names, lower) != names.end();
}

/// Turns lines into rows, once the first of them has shown the layout.
class csv_parser {
public:
  csv_parser(line_reader& lines, const csv_options& options, label_map& labels)
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
  void find_label(const fields& header, const fields& row);
  void add(std::string_view line);
  float finite(std::string_view field, std::size_t column) const;
  void add_label(std::string_view field, std::size_t column);

  line_reader& lines_;
  label_map& labels_;
  csv_rows rows_;
  std::string header_;
  fields fields_;
};

/// Returns the first row.
std::optional<std::string_view> csv_parser::learn_layout(std::string_view line) {
  csv_options& layout = rows_.layout;
  if (layout.delimiter == 0) layout.delimiter = most_frequent_delimiter(line);
  split(line, layout.delimiter, fields_);
  if (layout.columns == 0) layout.columns = fields_.size();
  if (layout.columns < 2)
    throw_malformed(lines_.file(), lines_.number(),
                    "expected a label and numbers between commas, found " + in_quotes(line));
  rows_.features.dims = {layout.columns - 1};
  if (layout.header == csv_header::automatic)
    layout.header = std::ranges::none_of(fields_, is_number) ? csv_header::present : csv_header::absent;
  if (layout.header == csv_header::absent) {
    find_label({}, fields_);
    return line;
  }
  header_ = line;
  fields header;
  split(header_, layout.delimiter, header);
  const auto first_row = lines_.next();
  if (first_row) split(*first_row, layout.delimiter, fields_);
  find_label(header, fields_);
  return first_row;
}

void csv_parser::find_label(const fields& header, const fields& row) {
  csv_label& label = rows_.layout.label;
  if (label != csv_label::automatic) return;
  const bool by_name = !header.empty() && names_a_label(header.front());
  const bool by_word = !is_number(row.front()) && is_number(row.back());
  label = by_name || by_word ? csv_label::first : csv_label::last;
}

void csv_parser::add(std::string_view line) {
  split(line, rows_.layout.delimiter, fields_);
  const std::size_t columns = rows_.layout.columns;
  if (fields_.size() != columns)
    throw_malformed(lines_.file(), lines_.number(),
                    "expected " + std::to_string(columns) + " columns, found " +
                        std::to_string(fields_.size()));
  const std::size_t label_column = rows_.layout.label == csv_label::first ? 0 : columns - 1;
  add_label(fields_[label_column], label_column);
  for (std::size_t column = 0; column < columns; ++column)
    if (column != label_column) rows_.features.values.push_back(finite(fields_[column], column));
  rows_.layout.limit.require(lines_.file(), sizeof(float) * (rows_.features.values.size() +
                                                             rows_.labels.size() + rows_.targets.size()));
}

float csv_parser::finite(std::string_view field, std::size_t column) const {
  const auto number = parse_number(field);
  if (!number || !fits_float(*number))
    throw_malformed(lines_.file(), lines_.number(),
                    "expected a finite number in column " + std::to_string(column + 1) + ", found " +
                        in_quotes(field));
  return static_cast<float>(*number);
}

void csv_parser::add_label(std::string_view field, std::size_t column) {
  if (rows_.layout.holds == label_kind::numbers) {
    rows_.targets.push_back(finite(field, column));
    return;
  }
  const auto label = labels_.find(field);
  if (!label)
    throw_malformed(lines_.file(), lines_.number(),
                    "expected " + labels_.expected() + ", found " + in_quotes(field) +
                        (is_number(field) ? "; a number to predict is a task of regression" : ""));
  rows_.labels.push_back(*label);
}

} // namespace

csv_rows read_csv(const std::filesystem::path& file, const csv_options& options, label_map& labels) {
  line_reader lines{file};
  csv_rows rows = csv_parser{lines, options, labels}.parse();
  if (labels.is_open() && options.holds == label_kind::classes) labels.settle(rows.labels);
  return rows;
}

} // namespace mailgrad
