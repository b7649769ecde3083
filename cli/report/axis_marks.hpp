#pragma once

#include <string>

namespace mailgrad {

/// 1, 2 or 5 times a power of ten and at least 1, so that an axis of this range has at most seven marks.
double distance_of_marks(double range);

/// Gnuplot's words for an x axis of counts from `least` to `most`, with marks such as 0, 500, 1k, 1.5k. Its
/// own format "%.0s%c" would call 1500 and 2000 both 2k.
std::string axis_of_counts(double least, double most);

} // namespace mailgrad
