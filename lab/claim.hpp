#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

namespace mailgrad::lab {

/// How a measured value relates to the expected one.
enum class relation : std::uint8_t {
  equals,   ///< within the tolerance
  at_most,  ///< no larger, but for the tolerance
  at_least, ///< no smaller, but for the tolerance
};

/// How much a value differs from seed to seed, or from one group of runs to another.
struct seeds_spread {
  static constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

  /// The standard deviation; unknown of one seed, of a ratio of means, and where chance has no part.
  double deviation = unknown;
  std::uint64_t seeds = 1; ///< or groups of runs

  /// That of the same values in another unit.
  template <class Number>
  requires std::is_arithmetic_v<Number>
  friend constexpr seeds_spread operator/(seeds_spread s, Number by) noexcept {
    return {s.deviation / by, s.seeds};
  }
  /// The standard deviation of the mean over so many of them.
  double error_of_mean() const noexcept { return deviation / std::sqrt(static_cast<double>(seeds)); }
};

/// A value that is known exactly or was published, and what the actors that train made of it.
struct claim {
  static constexpr double unknown = seeds_spread::unknown;

  std::string name;          ///< "largest stable step, delay 4"
  std::string unit;          ///< empty for a number without one
  std::string expected_from; ///< "closed form", or the table of a paper
  double expected = 0;
  double measured = 0;
  seeds_spread spread{};
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
