#include <mailgrad/data/formats/number_rows.hpp>

#include <mailgrad/data/finite.hpp>
#include <mailgrad/files/file_error.hpp>
#include <mailgrad/files/line_reader.hpp>
#include <mailgrad/options/number.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <istream>
#include <utility>

namespace mailgrad {

number_rows::number_rows(std::istream& in, std::string name, std::size_t columns)
    : in_(in), name_(std::move(name)), columns_(columns) {}

bool number_rows::read_line() {
  do {
    if (!std::getline(in_, line_)) return false;
    ++number_;
    if (number_ == 1 && line_.starts_with(byte_order_mark)) line_.erase(0, byte_order_mark.size());
    if (line_.ends_with('\r')) line_.pop_back();
  } while (line_.empty());
  if (!splitter_) splitter_.emplace(most_frequent_delimiter(line_));
  if (!splitter_->split(line_, fields_))
    throw_malformed(name_, file_line{number_}, "expected double quotes around the whole of a field");
  return true;
}

bool number_rows::is_header() {
  return number_ == 1 &&
         std::ranges::none_of(fields_, [](std::string_view f) { return parse_number(f).has_value(); });
}

bool number_rows::next(std::vector<float>& to) {
  if (!read_line() || (is_header() && !read_line())) return false;
  if (fields_.size() != columns_)
    throw_malformed(name_, file_line{number_},
                    fmt::format("expected {} numbers, as the model reads them, found {} fields", columns_,
                                fields_.size()));
  const std::size_t before = to.size();
  for (std::size_t column = 0; column < columns_; ++column) {
    const auto number = parse_number(fields_[column]);
    if (!number || !fits_float(*number)) {
      to.resize(before);
      throw_malformed(name_, file_line{number_},
                      fmt::format("expected a finite number in column {}, found {}", column + 1,
                                  in_quotes(fields_[column])));
    }
    to.push_back(static_cast<float>(*number));
  }
  return true;
}

} // namespace mailgrad
