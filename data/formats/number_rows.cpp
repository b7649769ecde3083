#include <mailgrad/data/formats/number_rows.hpp>

#include <mailgrad/files/file_error.hpp>
#include <mailgrad/files/line_reader.hpp>

#include <fmt/format.h>

#include <cmath>
#include <istream>
#include <utility>

namespace mailgrad {

namespace {

/// Where nothing is known of the columns, each is a number.
row_options completed(row_options options, const std::string& name, std::size_t numbers) {
  if (options.table.columns.empty()) options.table.columns.assign(numbers, {.kind = column_kind::number});
  if (options.table.width() != numbers)
    throw_malformed(name,
                    fmt::format("expected columns that make {} numbers, as the model reads them, found {}",
                                numbers, options.table.width()));
  return options;
}

} // namespace

number_rows::number_rows(std::istream& in, std::string name, std::size_t numbers, row_options options)
    : in_(in), name_(std::move(name)), options_(completed(std::move(options), name_, numbers)),
      fields_as_numbers_(options_.table) {}

void number_rows::fail(std::string_view why) const { throw_malformed(name_, file_line{number_}, why); }

/// Passes over the empty lines at the end. Before another row one would shift the answers against the lines.
bool number_rows::find_line() {
  std::uint64_t first_empty = 0;
  while (std::getline(in_, line_)) {
    ++number_;
    if (number_ == 1 && line_.starts_with(byte_order_mark)) line_.erase(0, byte_order_mark.size());
    if (line_.ends_with('\r')) line_.pop_back();
    if (line_.empty() && first_empty == 0) first_empty = number_;
    if (line_.empty()) continue;
    if (first_empty != 0)
      throw_malformed(name_, file_line{first_empty}, "expected a row, found an empty line");
    return true;
  }
  return false;
}

bool number_rows::read_line() {
  if (!find_line()) return false;
  if (!splitter_)
    splitter_.emplace(options_.delimiter != 0 ? options_.delimiter : most_frequent_delimiter(line_));
  if (!splitter_->split(line_, fields_)) fail("expected double quotes around the whole of a field");
  const std::size_t columns = options_.table.columns.size();
  if (fields_.size() != columns)
    fail(fmt::format("expected {} fields, as the model reads them, found {}", columns, fields_.size()));
  return true;
}

bool number_rows::is_header() const {
  if (options_.header != csv_header::automatic) return options_.header == csv_header::present;
  return are_names(options_.table, fields_);
}

/// Skips the header. Returns false at the end.
bool number_rows::find_first_row() {
  if (!is_header()) return true;
  if (const std::string why = wrong_name(options_.table, fields_); !why.empty()) fail(why);
  return read_line();
}

bool number_rows::next(std::vector<float>& to) {
  const bool first = number_ == 0;
  if (!read_line() || (first && !find_first_row())) return false;
  row_.clear();
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    if (options_.table.columns[i].kind == column_kind::left_out) continue;
    const std::optional<float> number = fields_as_numbers_.read(i, fields_[i]);
    if (!number || (std::isnan(*number) && options_.table.means.empty()))
      fail(fmt::format("expected {} in column {}, found {}", fields_as_numbers_.expected(i), i + 1,
                       in_quotes(fields_[i])));
    row_.push_back(*number);
  }
  const std::vector<float> numbers = expand(options_.table, row_);
  to.insert(to.end(), numbers.begin(), numbers.end());
  return true;
}

} // namespace mailgrad
