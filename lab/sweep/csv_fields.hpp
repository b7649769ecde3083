#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mailgrad::lab {

/// A field of a CSV file: quoted where it has to be, and in one line.
std::string csv_field(std::string_view text);
/// With so many digits that it is read back as it was; empty for a number that is none.
std::string csv_field(double number);

/// The fields of a line, without their quotes; none if a quote is not closed.
std::optional<std::vector<std::string>> csv_fields(std::string_view line);

} // namespace mailgrad::lab
