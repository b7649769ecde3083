#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace mailgrad::lab {

/// How a measured value relates to the expected one.
enum class relation : std::uint8_t {
  equals,   ///< within the tolerance
  at_most,  ///< no larger, but for the tolerance
  at_least, ///< no smaller, but for the tolerance
};

/// A value that is known exactly or was published, and what the actors that train made of it.
struct claim {
  static constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

  std::string name;          ///< "largest stable step, delay 4"
  std::string unit;          ///< empty for a number without one
  std::string expected_from; ///< "closed form", or the table of a paper
  double expected = 0;
  double measured = 0;
  double spread =
      unknown;          ///< the standard deviation over seeds; unknown if there was one, or no seed matters
  double tolerance = 0; ///< in the unit of both
  relation how = relation::equals;

  bool holds() const noexcept {
    const double off = measured - expected; // a NaN holds nothing
    switch (how) {
    case relation::at_most:
      return off <= tolerance;
    case relation::at_least:
      return off >= -tolerance;
    case relation::equals:
      break;
    }
    return off <= tolerance && off >= -tolerance;
  }
};

} // namespace mailgrad::lab
