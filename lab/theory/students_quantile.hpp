#pragma once

#include <cstdint>

namespace mailgrad::lab {

/// The t that a value of Student's distribution exceeds, on either side, with the probability `beyond`. It
/// says how many of its own standard errors a mean of `freedom` + 1 normal values is off by chance; with two
/// values and a thousandth these are 637, with eight 5.4, and with many 3.3.
///
/// Source  Abramowitz & Stegun, Handbook of Mathematical Functions, 1964, 26.7.3 and 26.7.4.
/// Errors  infinite without a degree of freedom.
double students_quantile(std::uint64_t freedom, double beyond);

} // namespace mailgrad::lab
