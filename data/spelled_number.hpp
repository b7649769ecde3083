#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mailgrad {

/// The signs by which the numbers of a column are written.
struct number_signs {
  char decimal = '.';   ///< '.' or ','
  bool grouped = false; ///< whether the other of the two stands between thousands

  bool operator==(const number_signs&) const = default;
};

/// The number that all of `field` spells by these signs, with an optional exponent: "1,234.5", "1.234,5".
/// Blanks and apostrophes may stand between thousands in any case, as in "1 234" and "1'234", and a minus may
/// be that of typesetters. Programs that write an exponent write no thousands, so "1.100e3" has a point. A
/// number without thousands is read as parse_number() does.
std::optional<double> spelled_number(std::string_view field, number_signs signs);

/// The same text with '.' as its decimal sign, nothing between its thousands and no '+'. Empty: these signs
/// stand otherwise in it than in a number.
std::string plain_form(std::string_view field, number_signs signs);

/// What a field is by each of the decimal signs. "1,5" is a number by the comma alone, and "1,234" is another
/// number by each.
struct number_readings {
  std::optional<double> by_point;
  std::optional<double> by_comma;

  bool any() const noexcept { return by_point || by_comma; }
};
number_readings readings_of(std::string_view field);

} // namespace mailgrad
