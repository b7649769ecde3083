#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace mailgrad {

/// The number that all of `text` spells; empty for any other text, and for a number that the type cannot
/// hold.
template <class Number>
std::optional<Number> number_of_all(std::string_view text) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// The number that all of `text` spells, in decimal with an optional sign and exponent; "nan" and "inf" are
/// read as such. Empty for any other text and for a number that a double cannot hold.
inline std::optional<double> parse_number(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  return number_of_all<double>(text);
}

/// The whole number that all of `text` spells, in decimal digits alone. Empty for any other text and for a
/// number of more than 64 bits.
inline std::optional<std::uint64_t> parse_whole(std::string_view text) {
  return number_of_all<std::uint64_t>(text);
}

/// Whether a float can hold the number: it is finite and not beyond the largest float.
inline bool fits_float(double number) { return std::abs(number) <= std::numeric_limits<float>::max(); }

/// Writes the shortest text that parses to the same number.
template <class Float>
std::string exact_text(Float number) {
  char text[64];
  return {text, std::to_chars(text, text + sizeof text, number).ptr};
}

} // namespace mailgrad
