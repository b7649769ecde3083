#include <mailgrad/cli/report/axis_marks.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace mailgrad {

namespace {

/// 1500 as "1.5k".
std::string in_thousands(double count) {
  const char* unit = "";
  for (const char* larger : {"k", "M", "G", "T"}) {
    if (count < 1000) break;
    count /= 1000;
    unit = larger;
  }
  return fmt::format("{:.10g}{}", count, unit);
}

} // namespace

double distance_of_marks(double range) {
  for (double ten = 1;; ten *= 10)
    for (const double step : {ten, 2 * ten, 5 * ten})
      if (range / step <= 6) return step;
}

std::string axis_of_counts(double least, double most) {
  const double step = distance_of_marks(most > least ? most - least : most);
  const double first = std::floor(least / step);
  const double last = std::max(std::ceil(most / step), first + 1);
  std::vector<std::string> marks;
  for (double mark = first; mark <= last; ++mark)
    marks.push_back(fmt::format("'{}' {:.15g}", in_thousands(mark * step), mark * step));
  return fmt::format("set xrange [{:.15g}:{:.15g}]\nset xtics ({})\n", first * step, last * step,
                     fmt::join(marks, ", "));
}

} // namespace mailgrad
