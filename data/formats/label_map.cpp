#include <mailgrad/data/formats/label_map.hpp>

#include <mailgrad/files/file_error.hpp>
#include <mailgrad/options/number.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace mailgrad {

namespace {

/// Below 2^53, every whole number is exact as a double.
constexpr double exact = 9007199254740992.0;

/// Returns the one spelling under which a label is stored; nothing if the text is no label.
std::optional<std::string> plain(std::string_view label) {
  if (label.empty() || label.size() > 256) return std::nullopt;
  const std::optional<double> number = parse_number(label);
  if (!number) return std::string(label);
  if (!(std::abs(*number) < exact) || *number != std::floor(*number)) return std::nullopt;
  return std::to_string(static_cast<std::int64_t>(*number));
}

bool before(const std::string& a, const std::string& b) {
  const auto left = parse_number(a);
  const auto right = parse_number(b);
  if (left && right) return *left < *right;
  if (left || right) return left.has_value(); // numbers come before words
  return a < b;
}

} // namespace

label_map::label_map(const std::vector<std::string>& names) : names_(names), open_(false) {
  for (std::size_t i = 0; i < names.size(); ++i)
    numbers_.emplace(plain(names[i]).value_or(names[i]), static_cast<std::int32_t>(i));
}

std::optional<std::int32_t> label_map::find(std::string_view label) {
  std::optional<std::string> text = plain(label);
  if (!text) return std::nullopt;
  if (const auto known = numbers_.find(*text); known != numbers_.end()) return known->second;
  if (!open_ || names_.size() == most()) return std::nullopt;
  const auto number = static_cast<std::int32_t>(names_.size());
  names_.push_back(*text);
  numbers_.emplace(*std::move(text), number);
  return number;
}

void label_map::settle(std::vector<std::int32_t>& labels) {
  open_ = false;
  std::ranges::sort(names_, before);
  std::vector<std::int32_t> settled(names_.size());
  for (std::size_t i = 0; i < names_.size(); ++i) {
    std::int32_t& number = numbers_.find(names_[i])->second;
    settled[static_cast<std::size_t>(number)] = static_cast<std::int32_t>(i);
    number = static_cast<std::int32_t>(i);
  }
  for (std::int32_t& label : labels) label = settled[static_cast<std::size_t>(label)];
}

std::string label_map::expected(std::string_view what) const {
  if (names_.empty() || (open_ && names_.size() < most()))
    return fmt::format("a {} that is a whole number or a word", what);
  std::string text = fmt::format("one of the {} {}s", names_.size(), what);
  const std::size_t shown = std::min<std::size_t>(names_.size(), 4);
  for (std::size_t i = 0; i < shown; ++i) text += (i == 0 ? " " : ", ") + in_quotes(names_[i]);
  return text + (shown < names_.size() ? ", ..." : "");
}

} // namespace mailgrad
