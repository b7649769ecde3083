#include <mailgrad/data/formats/csv_facts.hpp>

#include <mailgrad/data/formats/sniff.hpp>
#include <mailgrad/data/table_layout.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

namespace mailgrad {

namespace {

bool digit(char c) { return c >= '0' && c <= '9'; }

std::size_t digits_in_front(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::find_if_not(text, digit) - text.begin());
}

/// "Mar 1, 2020", "1 March 2020".
bool has_month_and_year(std::string_view field) {
  constexpr std::array<std::string_view, 12> months{"jan", "feb", "mar", "apr", "may", "jun",
                                                    "jul", "aug", "sep", "oct", "nov", "dec"};
  const std::string small = in_small_letters(field);
  const std::string_view words = small;
  const std::size_t begin = std::min(words.find_first_not_of("0123456789. "), words.size());
  if (std::ranges::none_of(months, [&](auto m) { return words.substr(begin).starts_with(m); })) return false;
  const std::size_t blank = words.rfind(' ');
  return blank != std::string_view::npos && blank > begin && words.size() - blank == 5 &&
         std::ranges::all_of(words.substr(blank + 1), digit);
}

/// "2020-01".
bool is_year_and_month(std::string_view field) {
  return field.size() == 7 && field[4] == '-' && digits_in_front(field) == 4 &&
         std::ranges::all_of(field.substr(5), digit) && field.substr(5) >= "01" && field.substr(5) <= "12";
}

/// "1/2/2020", "31.12.99", "2020-01-31 10:00", "1-Jan-2020", "12:30", "1:30 PM", "2020-01", "Mar 1, 2020".
bool is_like_date(std::string_view field) {
  if (has_month_and_year(field) || is_year_and_month(field)) return true;
  const std::size_t first = digits_in_front(field);
  if (first == 0 || first > 4 || first == 3 || first == field.size()) return false;
  const char sign = field[first];
  std::string_view rest = field.substr(first + 1);
  const std::size_t second = digits_in_front(rest);
  if (sign == ':') return second == 2 && first <= 2 && (rest.size() == 2 || rest[2] == ':' || rest[2] == ' ');
  if (sign != '/' && sign != '-' && sign != '.') return false;
  const std::size_t middle = second > 0 ? second : std::min(rest.find(sign), rest.size());
  if (second > 2 || middle == 0 || middle > 3 || middle == rest.size() || rest[middle] != sign) return false;
  rest.remove_prefix(middle + 1);
  const std::size_t third = digits_in_front(rest);
  if (third == 0 || third == 3 || third > 4) return false;
  return third == rest.size() || rest[third] == ' ' || rest[third] == 'T';
}

/// "0x1f", "1.5D+02": programs of other languages write such numbers.
bool is_number_elsewhere(std::string_view field) {
  const std::string small = in_small_letters(field);
  if (small.starts_with("0x"))
    return small.size() > 2 && small.find_first_not_of("0123456789abcdef", 2) == std::string::npos;
  std::string with_e = small;
  std::ranges::replace(with_e, 'd', 'e');
  return std::ranges::count(small, 'd') == 1 && digit(small.front()) && readings_of(with_e).any();
}

/// Takes a unit away: "5.5kg" and "5 kg" have one, and "A5" and "5a" none.
std::string_view without_unit(std::string_view field) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const std::size_t size = field.size();
  std::size_t unit = 0;
  while (unit < size && letter(field[size - 1 - unit])) ++unit;
  const std::string_view number = field.substr(0, size - unit);
  const bool is_clear = number.find('.') != std::string_view::npos || number.ends_with(' ');
  return unit > 0 && unit <= 3 && is_clear ? number : field;
}

/// "12 %", "$5", "(12.5)", "12,34,567", "5.00-", "<0.50", "CHF 5.50": somebody means a number.
bool is_like_number(std::string_view field) {
  constexpr std::array<std::string_view, 15> marks{
      "$",        "%",       "(", ")", "<", ">", "~", "=", "-", "USD", "EUR", "CHF", "\xe2\x82\xac",
      "\xc2\xa3", "\xc2\xa5"};
  if (is_number_elsewhere(field)) return true;
  field = without_unit(field);
  for (bool found = true; found && !field.empty();) {
    found = false;
    for (const std::string_view mark : marks) {
      const bool in_front = field.starts_with(mark);
      if (!in_front && !field.ends_with(mark)) continue;
      in_front ? field.remove_prefix(mark.size()) : field.remove_suffix(mark.size());
      found = true;
    }
    while (field.starts_with(' ')) field.remove_prefix(1);
    while (field.ends_with(' ')) field.remove_suffix(1);
  }
  if (field.starts_with('+')) field.remove_prefix(1);
  return std::ranges::any_of(field, digit) &&
         std::ranges::all_of(field, [](char c) { return digit(c) || c == '.' || c == ',' || c == ' '; });
}

bool has_leading_zero(std::string_view field) {
  if (field.starts_with('-') || field.starts_with('+')) field.remove_prefix(1);
  return field.size() > 1 && field[0] == '0' && digit(field[1]);
}

/// "192.168.100.101" has four.
std::size_t groups_of_digits(std::string_view field) {
  std::size_t groups = 0;
  for (std::size_t i = 0; i < field.size(); ++i)
    groups += digit(field[i]) && (i == 0 || !digit(field[i - 1]));
  return groups;
}

constexpr double widest_exact_float = 16777216; ///< up to there each whole number is one of 32 bits

bool has_fraction(const std::optional<double>& number) { return number && *number != std::floor(*number); }

} // namespace

bool is_word_for_nothing(std::string_view field) {
  constexpr std::array<std::string_view, 16> words{"none",    "\\n",    "nat",   "nil",     "-",     "--",
                                                   ".",       "..",     "n.a.",  "#div/0!", "#ref!", "#name?",
                                                   "#value!", "#null!", "#num!", "missing"};
  return std::ranges::find(words, in_small_letters(field)) != words.end();
}

void column_facts::add(std::string_view field) {
  if (is_missing(field)) {
    ++missing;
    return;
  }
  const number_readings r = readings_of(field);
  if (r.any())
    add_number(field, r);
  else
    add_word(field);
  const std::size_t most = 1 + (counted_ ? label_map::most_classes : field_numbers::most_categories);
  if ((counted_ || !r.any()) && different_.size() < most)
    different_.insert(std::hash<std::string_view>()(field));
}

void column_facts::add_in_front(std::string_view field) {
  const bool had_numbers = numbers > 0, counted_up = counts_up_;
  const double first = first_, last = last_;
  add(field);
  const double value = last_; // of the field, if it is a number
  if (had_numbers) counts_up_ = counted_up && (value == last || value + 1 == first);
  if (had_numbers) last_ = last;
}

void column_facts::add_word(std::string_view field) {
  if (words++ == 0) word = field;
  if (is_word_for_nothing(field) && for_nothing++ == 0) nothing = field;
  if (is_like_date(field))
    ++dates;
  else if (is_like_number(field))
    ++like_numbers;
}

void column_facts::add_number(std::string_view field, const number_readings& r) {
  const double value = r.by_point ? *r.by_point : *r.by_comma;
  if (numbers > 0 && value != last_ + 1) counts_up_ = false;
  if (numbers == 0) first_ = value;
  least = numbers == 0 ? value : std::min(least, value);
  greatest = numbers == 0 ? value : std::max(greatest, value);
  last_ = value;
  ++numbers;
  if (!merges_ && std::abs(value) > widest_exact_float) note_wide(field, value);
  point_fractions_ += has_fraction(r.by_point) ? 1 : 0;
  comma_fractions_ += has_fraction(r.by_comma) ? 1 : 0;
  const bool comma = field.find(',') != std::string_view::npos;
  const bool point = field.find('.') != std::string_view::npos;
  const bool blank = field.find(' ') != std::string_view::npos;
  if (blank && !comma && !point && blank_grouped++ == 0) by_blank = field;
  if (many_groups.empty() && comma + point + blank == 1 && groups_of_digits(field) > 3) many_groups = field;
  with_comma += comma ? 1 : 0;
  with_point += point ? 1 : 0;
  if (has_leading_zero(field) || (!comma && !point && field.find_first_of("eE") != std::string_view::npos))
    ++codes;
  if (!r.by_comma && point_alone++ == 0) by_point = field;
  if (!r.by_point && comma_alone++ == 0) by_comma = field;
  if (!r.by_point || !r.by_comma || comma == point) return;
  if (std::string& either = comma ? comma_by_either : point_by_either; either.empty()) either = field;
}

void column_facts::note_wide(std::string_view field, double value) {
  constexpr std::size_t most = 65536;
  constexpr double widest_exact_double = 9007199254740992;
  const std::size_t hash = std::abs(value) < widest_exact_double ? std::hash<double>()(value)
                                                                 : std::hash<std::string_view>()(field);
  const auto as_float = static_cast<float>(value);
  if (const auto known = wide_.find(as_float); known != wide_.end())
    merges_ = known->second != hash;
  else if (wide_.size() < most)
    wide_.emplace(as_float, hash);
}

bool column_facts::is_like_clock() const noexcept {
  constexpr double from = 9e8, to = 2.2e9; // from 1998 to 2039
  return numbers > 0 && words == 0 &&
         ((least > from && greatest < to) || (least > 1000 * from && greatest < 1000 * to));
}

} // namespace mailgrad
