#include <mailgrad/data/formats/number_rows.hpp>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace mailgrad {

namespace {

/// Where nothing is known of the columns, each is a number.
row_options completed(row_options options, const std::string& name, std::size_t numbers) {
  if (options.table.columns.empty()) options.table.columns.assign(numbers, {.kind = column_kind::number});
  if (options.table.width() != numbers)
    throw_malformed(name,
                    fmt::format("expected columns that make {} numbers, as the model reads them, found {}",
                                numbers, options.table.width()));
  for (table_column& c : options.table.columns)
    if (options.decimal != 0 && options.decimal != c.signs.decimal) c.signs = {options.decimal, true};
  return options;
}

std::vector<std::size_t> without_ones(std::span<const std::size_t> extents) {
  std::vector<std::size_t> some;
  std::ranges::copy_if(extents, std::back_inserter(some), [](std::size_t n) { return n != 1; });
  return some;
}

/// Pictures whose channels come first have as many numbers as the model reads, but in another order.
bool holds(const shape& array, const shape& dims) {
  if (array.rank() == 0) return false;
  const std::span<const std::size_t> found(array.begin() + 1, array.end());
  if (found.size() == 1 && found[0] == dims.size()) return true;
  return without_ones(found) == without_ones({dims.begin(), dims.end()});
}

} // namespace

number_rows::number_rows(std::istream& in, std::string name, std::size_t numbers, row_options options)
    : name_(std::move(name)), options_(completed(std::move(options), name_, numbers)),
      fields_as_numbers_(options_.table),
      records_(text_lines(in, name_),
               {options_.delimiter, !begins_with_hashes(options_.table.columns.front()),
                options_.table.columns.size()}) {}

/// Empty lines at the end mean nothing. Before another row one would shift the answers against the lines.
bool number_rows::read_record() {
  if (!records_.next()) return false;
  if (const auto empty = records_.empty_before()) fail(*empty, "expected a row, found an empty line");
  const std::size_t columns = options_.table.columns.size();
  if (const std::size_t found = records_.fields().size(); found != columns)
    fail(records_.number(),
         fmt::format("expected {} fields, as the model reads them, found {}", columns, found));
  return true;
}

/// Skips the header. Returns false at the end.
bool number_rows::find_first_row() {
  has_header_ = is_header();
  if (!has_header_) return true;
  if (const std::string why = wrong_name(options_.table, records_.fields()); !why.empty())
    fail(records_.number(), why);
  return read_record();
}

bool number_rows::next(std::vector<float>& to) {
  const bool first = !std::exchange(begun_, true);
  if (!read_record() || (first && !find_first_row())) return false;
  const std::vector<std::string_view>& fields = records_.fields();
  row_.clear();
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (options_.table.columns[i].kind == column_kind::left_out) continue;
    const std::optional<float> number = fields_as_numbers_.read(i, fields[i]);
    if (!number || (std::isnan(*number) && options_.table.means.empty()))
      fail(records_.number(), fmt::format("expected {} in column {}, found {}",
                                          fields_as_numbers_.expected(i), i + 1, in_quotes(fields[i])));
    row_.push_back(*number);
  }
  const std::vector<float> numbers = expand(options_.table, row_);
  to.insert(to.end(), numbers.begin(), numbers.end());
  return true;
}

array_rows::array_rows(const std::filesystem::path& file, const shape& dims)
    : array_(file), numbers_(dims.size()) {
  const shape& found = array_.header().dims;
  if (!holds(found, dims))
    array_.fail(fmt::format("expected samples of {}, as the model reads them, along the first axis, found an "
                            "array of {}",
                            to_string(dims), to_string(found)));
}

bool array_rows::next(std::vector<float>& to) {
  if (array_.left() == 0) return false;
  const std::size_t before = to.size();
  to.resize(before + numbers_);
  const std::span<float> sample = std::span(to).subspan(before);
  array_.read(sample);
  if (const auto at = first_not_finite(sample))
    array_.fail(fmt::format("number {} of sample {} is {}; numbers must be finite", *at, done_, sample[*at]));
  ++done_;
  return true;
}

} // namespace mailgrad
