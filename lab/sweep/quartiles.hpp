#pragma once

#include <vector>

namespace mailgrad::lab {

/// The median of some numbers, and the numbers below which a quarter and three quarters of them lie.
struct quartiles {
  double low = 0;
  double median = 0;
  double high = 0;
};

/// Between two neighbours they are interpolated, as numpy does by default. Infinite numbers are allowed.
///
/// Errors  std::invalid_argument if there is no number.
quartiles quartiles_of(std::vector<double> numbers);

} // namespace mailgrad::lab
