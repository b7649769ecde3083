#include <mailgrad/data/spelled_number.hpp>
#include <mailgrad/options/number.hpp>

#include <algorithm>
#include <array>

namespace mailgrad {

namespace {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// The sign between two groups of digits that `text` begins with; empty: none.
std::string_view sign_between_groups(std::string_view text, number_signs signs) {
  // A blank, one that does not break the line, a narrow one, a thin one, and two apostrophes, in UTF-8.
  constexpr std::array<std::string_view, 6> always{" ", "\xc2\xa0",    "\xe2\x80\xaf", "\xe2\x80\x89",
                                                   "'", "\xe2\x80\x99"};
  if (signs.grouped && text.front() == (signs.decimal == '.' ? ',' : '.')) return text.substr(0, 1);
  const auto found = std::ranges::find_if(always, [=](std::string_view s) { return text.starts_with(s); });
  return found == always.end() ? std::string_view() : *found;
}

/// Appends the digits of "1 234 567". One sign stands between its groups, each time before three digits.
bool append_digits(std::string_view whole, number_signs signs, std::string& to) {
  const std::size_t begin = to.size();
  std::string_view between;
  std::size_t in_group = 0;
  while (!whole.empty()) {
    if (is_digit(whole.front())) {
      to += whole.front();
      ++in_group;
      whole.remove_prefix(1);
      continue;
    }
    const std::string_view sign = sign_between_groups(whole, signs);
    const bool fits = between.empty() ? in_group >= 1 && in_group <= 3 && to[begin] != '0'
                                      : in_group == 3 && sign == between;
    if (sign.empty() || !fits) return false;
    between = sign;
    in_group = 0;
    whole.remove_prefix(sign.size());
  }
  return between.empty() || in_group == 3;
}

/// Whether a point may stand between thousands: three digits are behind the last one.
bool may_be_grouped_by_points(std::string_view field) {
  const std::size_t point = field.rfind('.');
  if (point == std::string_view::npos) return true;
  const std::string_view digits = field.substr(point + 1, 4);
  return digits.size() >= 3 && std::ranges::all_of(digits.substr(0, 3), is_digit) &&
         (digits.size() == 3 || !is_digit(digits[3]));
}

} // namespace

std::string plain_form(std::string_view field, number_signs signs) {
  constexpr std::string_view typeset_minus = "\xe2\x88\x92";
  std::string plain;
  if (field.starts_with(typeset_minus) || field.starts_with('-')) plain = "-";
  if (field.starts_with(typeset_minus))
    field.remove_prefix(typeset_minus.size());
  else if (field.starts_with('-') || field.starts_with('+'))
    field.remove_prefix(1);
  const std::string_view whole =
      field.substr(0, std::min(field.find(signs.decimal), field.find_first_of("eE")));
  std::string_view rest = field.substr(whole.size());
  const bool has_exponent = rest.find_first_of("eE") != std::string_view::npos;
  if (has_exponent && !std::ranges::all_of(whole, is_digit)) return {};
  if (!append_digits(whole, signs, plain)) return {};
  if (rest.starts_with(signs.decimal)) {
    plain += '.';
    rest.remove_prefix(1);
  }
  return plain.append(rest);
}

std::optional<double> spelled_number(std::string_view field, number_signs signs) {
  if (signs.decimal == '.' || field.find_first_of(".,") == std::string_view::npos)
    if (const auto number = parse_number(field)) return number;
  return parse_number(plain_form(field, signs));
}

number_readings readings_of(std::string_view field) {
  const auto by_point = spelled_number(field, {'.', true});
  if (field.find_first_of(".,") == std::string_view::npos) return {by_point, by_point};
  if (!may_be_grouped_by_points(field)) return {by_point, std::nullopt};
  return {by_point, spelled_number(field, {',', true})};
}

} // namespace mailgrad
