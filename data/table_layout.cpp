#include <mailgrad/data/files.hpp>
#include <mailgrad/data/table_layout.hpp>
#include <mailgrad/options/number.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

namespace mailgrad {

namespace {

/// The columns of which a row of numbers has one each.
std::vector<const table_column*> used(const table_layout& layout) {
  std::vector<const table_column*> columns;
  for (const table_column& c : layout.columns)
    if (c.kind != column_kind::left_out) columns.push_back(&c);
  return columns;
}

} // namespace

std::size_t table_column::width() const noexcept {
  if (kind == column_kind::left_out) return 0;
  return kind == column_kind::category ? categories.size() : 1;
}
std::size_t table_layout::width() const noexcept {
  return std::transform_reduce(columns.begin(), columns.end(), std::size_t{0}, std::plus<>{},
                               [](const table_column& c) { return c.width(); });
}

bool table_layout::is_plain() const noexcept {
  return means.empty() && std::ranges::all_of(columns, [](const table_column& c) {
           return c.kind == column_kind::number || c.kind == column_kind::unknown;
         });
}

bool begins_with_hashes(const table_column& column) {
  return std::ranges::any_of(column.categories, [](std::string_view c) { return c.starts_with('#'); });
}
bool is_no_name(std::string_view field) noexcept {
  return readings_of(field).any() || (!field.empty() && is_missing(field));
}

bool are_names(const table_layout& layout, std::span<const std::string_view> fields) {
  if (fields.size() != layout.columns.size()) return false;
  bool has_numbers = false;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const table_column& c = layout.columns[i];
    if (!c.name.empty() && c.name == fields[i]) return true;
    has_numbers = has_numbers || c.kind == column_kind::number;
  }
  return has_numbers && std::ranges::none_of(fields, is_no_name);
}

std::string wrong_name(const table_layout& layout, std::span<const std::string_view> names) {
  for (std::size_t i = 0; i < std::min(names.size(), layout.columns.size()); ++i)
    if (std::string why = wrong_name(layout.columns[i].name, names[i]); !why.empty()) return why;
  return {};
}
std::string wrong_name(std::string_view known, std::string_view found) {
  if (known.empty() || known == found) return {};
  return fmt::format("expected a column called '{}', as in training, found '{}'", known, found);
}

bool is_missing(std::string_view field) noexcept {
  constexpr std::array<std::string_view, 7> words{"?", "na", "n/a", "#n/a", "<na>", "nan", "null"};
  if (field.size() > words[3].size()) return false; // without a copy, and so without memory for one
  return field.empty() || std::ranges::find(words, in_small_letters(field)) != words.end();
}

field_numbers::field_numbers(table_layout& layout) : layout_(layout) {
  for (const table_column& c : layout.columns)
    categories_.push_back(c.categories.empty() ? label_map(0, label_spelling::characters)
                                               : label_map(c.categories, label_spelling::characters));
  holds_words_.resize(layout.columns.size());
}

std::optional<float> field_numbers::read(std::size_t column, std::string_view field) {
  if (is_missing(field)) return std::numeric_limits<float>::quiet_NaN();
  table_column& c = layout_.columns[column];
  const std::optional<double> number = spelled_number(field, c.signs);
  if (c.kind == column_kind::unknown) {
    c.kind = number ? column_kind::number : column_kind::category;
    holds_words_[column] = !number;
  }
  if (c.kind == column_kind::number)
    return number && fits_float(*number) ? std::optional(static_cast<float>(*number)) : std::nullopt;
  if (number && holds_words_[column]) return std::nullopt;
  label_map& known = categories_[column];
  const std::optional<std::int32_t> found = known.find(field);
  if (!found || known.classes() > most_categories) return std::nullopt;
  return static_cast<float>(*found);
}

std::string field_numbers::expected(std::size_t column) const {
  const table_column& c = layout_.columns[column];
  if (c.kind != column_kind::category) return "a finite number";
  const label_map& known = categories_[column];
  if (!known.is_open()) return known.expected("word");
  if (known.classes() > most_categories) return fmt::format("at most {} different words", most_categories);
  return holds_words_[column] ? "a word, as in the rows before," : known.expected("word");
}

void field_numbers::settle(std::vector<float>& rows) {
  const std::size_t each = used(layout_).size();
  std::size_t at = 0; // of the column among those that are not left out
  for (std::size_t i = 0; i < layout_.columns.size(); ++i) {
    table_column& c = layout_.columns[i];
    if (c.kind == column_kind::category && categories_[i].is_open()) {
      std::vector<std::int32_t> numbers;
      for (std::size_t r = at; r < rows.size(); r += each)
        numbers.push_back(std::isnan(rows[r]) ? 0 : static_cast<std::int32_t>(rows[r]));
      categories_[i].settle(numbers);
      c.categories = categories_[i].names();
      for (std::size_t r = at, n = 0; r < rows.size(); r += each, ++n)
        if (!std::isnan(rows[r])) rows[r] = static_cast<float>(numbers[n]);
    }
    if (c.kind != column_kind::left_out) ++at;
  }
}

std::vector<float> expand(const table_layout& layout, std::vector<float> rows) {
  if (layout.is_plain()) return rows;
  const std::vector<const table_column*> columns = used(layout);
  const std::size_t width = layout.width();
  const std::size_t count = columns.empty() ? 0 : rows.size() / columns.size();
  std::vector<float> samples(count * width);
  for (std::size_t row = 0; row < count; ++row) {
    float* to = samples.data() + row * width;
    const float* mean = layout.means.data();
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const float value = rows[row * columns.size() + i];
      const std::size_t numbers = columns[i]->width();
      if (std::isnan(value) && !layout.means.empty())
        std::copy_n(mean, numbers, to);
      else if (std::isnan(value))
        std::fill_n(to, numbers, value);
      else if (columns[i]->kind == column_kind::category)
        to[static_cast<std::size_t>(value)] = 1;
      else
        *to = value;
      to += numbers;
      mean += layout.means.empty() ? 0 : numbers;
    }
  }
  return samples;
}

} // namespace mailgrad
