#include <mailgrad/data/finite.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace mailgrad {

/// The loop counts without a branch for each value, because a data set may have many millions.
std::optional<std::size_t> first_not_finite(std::span<const float> values) noexcept {
  constexpr std::size_t together = 4096;
  for (std::size_t first = 0; first < values.size(); first += together) {
    const auto part = values.subspan(first, std::min(together, values.size() - first));
    int infinite = 0;
#pragma omp simd reduction(+ : infinite)
    for (std::size_t i = 0; i < part.size(); ++i)
      infinite += std::abs(part[i]) <= std::numeric_limits<float>::max() ? 0 : 1;
    if (infinite == 0) continue;
    const auto found = std::ranges::find_if_not(part, [](float x) { return std::isfinite(x); });
    return first + static_cast<std::size_t>(found - part.begin());
  }
  return {};
}

void require_finite(std::span<const float> values, std::size_t width, const std::string& what) {
  const auto at = first_not_finite(values);
  if (!at) return;
  const std::string sample = width > 0 ? fmt::format(" of sample {}", *at / width) : "";
  throw std::invalid_argument(fmt::format("dataset: {} {}{} is {}; numbers must be finite", what,
                                          width > 0 ? *at % width : *at, sample, values[*at]));
}

} // namespace mailgrad
