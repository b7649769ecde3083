#include <mailgrad/data/formats/label_map.hpp>
#include <mailgrad/files/file_error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace mailgrad {

namespace {

constexpr std::size_t longest = 256;

/// "-12" for "-12", "-12.0" and "-12.", and "0" for ".0"; nothing for another text, such as a code with
/// leading zeros.
std::optional<std::string> plain_whole(std::string_view label) {
  const bool negative = label.starts_with('-');
  if (negative) label.remove_prefix(1);
  if (label.starts_with(".0")) return plain_whole("0" + std::string(label));
  const std::string_view digits = label.substr(0, label.find('.'));
  if (digits.empty() || (digits.size() > 1 && digits.front() == '0')) return std::nullopt;
  const std::string_view fraction = label.substr(std::min(label.size(), digits.size() + 1));
  if (digits.find_first_not_of("0123456789") != std::string_view::npos ||
      fraction.find_first_not_of('0') != std::string_view::npos)
    return std::nullopt;
  return (negative && digits != "0" ? "-" : "") + std::string(digits);
}

} // namespace

/// What tells a label from others; nothing if the text is no label.
std::optional<std::string> label_map::key_of(std::string_view label) const {
  if (label.empty() || label.size() > longest) return std::nullopt;
  if (spelling_ == label_spelling::characters) return std::string(label);
  const std::optional<double> number = spelled_number(label, signs_);
  if (number && (!std::isfinite(*number) || *number != std::floor(*number))) return std::nullopt;
  return plain_whole(plain_form(label, signs_)).value_or(std::string(label));
}

bool label_map::before(const std::string& a, const std::string& b) const {
  const auto left = spelled_number(a, signs_);
  const auto right = spelled_number(b, signs_);
  if (left && right && *left != *right) return *left < *right;
  if (left.has_value() != right.has_value()) return left.has_value(); // numbers come before words
  return a < b;
}

std::optional<std::int32_t> label_map::find(std::string_view label) {
  std::optional<std::string> key = key_of(label);
  if (!key) return std::nullopt;
  if (const auto known = numbers_.find(*key); known != numbers_.end()) return known->second;
  if (!open_ || names_.size() == most()) return std::nullopt;
  const auto number = static_cast<std::int32_t>(names_.size());
  names_.emplace_back(label);
  numbers_.emplace(*std::move(key), number);
  return number;
}

void label_map::settle(std::vector<std::int32_t>& labels) {
  open_ = false;
  std::ranges::sort(names_, [this](const auto& a, const auto& b) { return before(a, b); });
  std::vector<std::int32_t> settled(names_.size());
  for (std::size_t i = 0; i < names_.size(); ++i) {
    std::int32_t& number = numbers_.find(*key_of(names_[i]))->second;
    settled[static_cast<std::size_t>(number)] = static_cast<std::int32_t>(i);
    number = static_cast<std::int32_t>(i);
  }
  for (std::int32_t& label : labels) label = settled[static_cast<std::size_t>(label)];
}

std::string label_map::expected(std::string_view what) const {
  if (spelling_ == label_spelling::characters && open_)
    return fmt::format("a {} of at most {} characters", what, longest);
  if (names_.empty() || (open_ && names_.size() < most()))
    return fmt::format("a {} that is a whole number or a word", what);
  std::string text = fmt::format("one of the {} {}s", names_.size(), what);
  const std::size_t shown = std::min<std::size_t>(names_.size(), 4);
  for (std::size_t i = 0; i < shown; ++i) text += (i == 0 ? " " : ", ") + in_quotes(names_[i]);
  return text + (shown < names_.size() ? ", ..." : "");
}

std::size_t count_classes(const byte_labels& labels) {
  std::array<bool, 256> occurs{};
  for (std::uint8_t label : labels.values) occurs[label] = true;
  const auto first = std::ranges::find(occurs, true);
  const auto gap = std::find(first, occurs.end(), false);
  const auto beyond = std::find(gap, occurs.end(), true);
  const auto classes = static_cast<std::size_t>(gap - occurs.begin());
  if (beyond != occurs.end()) require_below(classes, labels);
  return classes;
}

void require_below(std::size_t classes, const byte_labels& labels) {
  const auto wrong =
      std::ranges::find_if(labels.values, [=](std::uint8_t label) { return label >= classes; });
  if (wrong == labels.values.end()) return;
  const auto index = static_cast<std::uint64_t>(wrong - labels.values.begin());
  throw_malformed(labels.file, file_offset{labels.first + index * labels.stride},
                  fmt::format("expected a label from 0 to {}, found {}", classes - 1, *wrong));
}

} // namespace mailgrad
