#include <mailgrad/lab/sweep/quartiles.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>

namespace mailgrad::lab {

namespace {

/// Source  Hyndman & Fan, The American Statistician 50(4), 1996, definition 7.
double quantile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const double part = at - std::floor(at);
  if (part == 0 || std::isinf(sorted[below])) return sorted[below];
  return sorted[below] + part * (sorted[below + 1] - sorted[below]);
}

} // namespace

quartiles quartiles_of(std::vector<double> numbers) {
  if (numbers.empty()) throw std::invalid_argument("quartiles: there is no number");
  std::ranges::sort(numbers);
  return {quantile(numbers, 0.25), quantile(numbers, 0.5), quantile(numbers, 0.75)};
}

} // namespace mailgrad::lab
