#include <mailgrad/data/formats/csv_columns.hpp>

#include <mailgrad/options/number.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>

namespace mailgrad {

namespace {

using fields = std::span<const std::string_view>;

bool is_number(std::string_view field) { return parse_number(field).has_value(); }

bool names_a_label(std::string_view field) {
  constexpr std::array<std::string_view, 4> names{"label", "class", "target", "y"};
  std::string lower(field);
  std::ranges::transform(lower, lower.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c; });
  return std::ranges::find(names, lower) != names.end();
}

/// Whether somebody asks for a column by a name that the line has.
bool has_a_name_asked_for(const csv_options& o, fields line) {
  const auto has = [&](std::string_view name) {
    return !name.empty() && !parse_whole(name) && std::ranges::find(line, name) != line.end();
  };
  return (o.label == csv_label::named && has(o.label_column)) || std::ranges::any_of(o.categories, has) ||
         std::ranges::any_of(o.left_out, has);
}

bool are_all_different(fields line) {
  return std::set<std::string_view>(line.begin(), line.end()).size() == line.size();
}

/// The columns of one file.
struct columns_found {
  fields header;
  fields first_row;
  const std::filesystem::path& file;
  file_line line;

  std::size_t count() const { return first_row.size(); }

  /// The number, from 0, of the column of that name or number. `option` stands in messages.
  std::size_t find(std::string_view name, std::string_view option) const {
    if (const auto number = parse_whole(name)) {
      if (*number >= 1 && *number <= count()) return static_cast<std::size_t>(*number - 1);
      throw_malformed(file, line,
                      fmt::format("expected a column {} for {}, found {} columns", *number, option, count()));
    }
    if (header.empty())
      throw_malformed(file, line,
                      fmt::format("expected a header with a column {} for {}, found none; number the columns "
                                  "from 1, or say --header yes (csv_options::header)",
                                  in_quotes(name), option));
    const auto found = std::ranges::find(header, name);
    if (found == header.end())
      throw_malformed(
          file, line,
          fmt::format("expected a column called {} for {}, found {}", in_quotes(name), option, named()));
    return static_cast<std::size_t>(found - header.begin());
  }

  std::string named() const {
    constexpr std::size_t most = 6;
    std::string text;
    for (std::size_t i = 0; i < std::min(most, header.size()); ++i)
      text += (i == 0 ? "" : ", ") + in_quotes(header[i]);
    return text + (header.size() > most ? fmt::format(" and {} more", header.size() - most) : "");
  }
};

std::size_t label_column(const csv_options& o, const columns_found& c) {
  const std::size_t last = c.count() - 1;
  if (o.label == csv_label::named) return c.find(o.label_column, "--label (csv_options::label_column)");
  if (o.label != csv_label::automatic) return o.label == csv_label::first ? 0 : last;
  if (!c.header.empty() && names_a_label(c.header.front())) return 0;
  return !is_number(c.first_row.front()) && is_number(c.first_row.back()) ? 0 : last;
}

/// The column as a number among the features.
table_column& feature(csv_options& o, std::size_t column, std::string_view option, const columns_found& c) {
  if (column == o.table.label)
    throw_malformed(c.file, c.line,
                    fmt::format("column {} holds the label, and is asked for as {}", column + 1, option));
  return o.table.columns[column - (column > o.table.label ? 1 : 0)];
}

void state_kinds(csv_options& o, const columns_found& c) {
  constexpr std::string_view categories = "--categories (csv_options::categories)";
  constexpr std::string_view left_out = "--leave-out (csv_options::left_out)";
  for (const std::string& name : o.categories)
    feature(o, c.find(name, categories), categories, c).kind = column_kind::category;
  for (const std::string& name : o.left_out)
    feature(o, c.find(name, left_out), left_out, c).kind = column_kind::left_out;
  const auto is_left_out = [](const table_column& t) { return t.kind == column_kind::left_out; };
  if (std::ranges::all_of(o.table.columns, is_left_out))
    throw_malformed(c.file, c.line, "expected a column to learn from, found none that is not left out");
}

/// The fields of a line without the label's.
std::vector<std::string_view> features_of(const csv_options& o, fields line) {
  std::vector<std::string_view> some(line.begin(), line.end());
  if (o.table.label < some.size()) some.erase(some.begin() + static_cast<std::ptrdiff_t>(o.table.label));
  return some;
}

/// A test file, or rows for a trained model, may have their columns in another order without anybody
/// noticing.
void require_known_names(const csv_options& o, const columns_found& c) {
  if (const std::string why = wrong_name(o.table, features_of(o, c.header)); !why.empty())
    throw_malformed(c.file, c.line, why);
}

} // namespace

bool is_csv_header(const csv_options& options, std::span<const std::string_view> first_line) {
  if (options.header != csv_header::automatic) return options.header == csv_header::present;
  if (!options.table.columns.empty()) return are_names(options.table, features_of(options, first_line));
  if (has_a_name_asked_for(options, first_line)) return true;
  return std::ranges::none_of(first_line, is_no_name) && are_all_different(first_line);
}

void learn_csv_columns(csv_options& options, std::span<const std::string_view> header,
                       std::span<const std::string_view> first_row, const std::filesystem::path& file,
                       file_line line) {
  const columns_found c{header, first_row, file, line};
  if (!options.table.columns.empty()) return require_known_names(options, c);
  options.table.label = label_column(options, c);
  options.table.missing = options.missing;
  for (std::size_t column = 0; column < c.count(); ++column)
    if (column != options.table.label)
      options.table.columns.push_back({header.empty() ? "" : std::string(header[column])});
  state_kinds(options, c);
}

} // namespace mailgrad
