#include <mailgrad/lab/theory/students_quantile.hpp>

#include <cmath>
#include <limits>
#include <numbers>

namespace mailgrad::lab {

namespace {

/// The probability of a value between -t and t, with t = tan(angle) times the root of `freedom`.
double within(double angle, std::uint64_t freedom) {
  const bool odd = freedom % 2 == 1;
  const double cosine = std::cos(angle);
  double term = odd ? cosine : 1, sum = 0;
  for (std::uint64_t k = odd ? 1 : 0; k + 2 <= freedom; k += 2) {
    sum += term;
    term *= static_cast<double>(k + 1) / static_cast<double>(k + 2) * cosine * cosine;
  }
  return odd ? 2 / std::numbers::pi * (angle + std::sin(angle) * sum) : std::sin(angle) * sum;
}

} // namespace

double students_quantile(std::uint64_t freedom, double beyond) {
  if (freedom == 0) return std::numeric_limits<double>::infinity();
  double below = 0, above = std::numbers::pi / 2;
  for (int halving = 0; halving < 60; ++halving) {
    const double middle = (below + above) / 2;
    (within(middle, freedom) < 1 - beyond ? below : above) = middle;
  }
  return std::tan((below + above) / 2) * std::sqrt(static_cast<double>(freedom));
}

} // namespace mailgrad::lab
