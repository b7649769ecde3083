#include <mailgrad/optim/clip.hpp>

#include <array>
#include <cstddef>

namespace mailgrad {

double sum_of_squares(std::span<const float> values) {
  constexpr std::size_t lanes = 16;
  std::array<double, lanes> sums{};
  const std::size_t whole = values.size() / lanes * lanes;
  const auto add = [&](std::size_t lane, std::size_t i) {
    const auto x = static_cast<double>(values[i]);
    sums[lane] += x * x;
  };
  for (std::size_t i = 0; i < whole; i += lanes) {
#pragma omp simd
    for (std::size_t lane = 0; lane < lanes; ++lane) add(lane, i + lane);
  }
  for (std::size_t i = whole; i < values.size(); ++i) add(i - whole, i);
  for (std::size_t half = lanes / 2; half > 0; half /= 2)
    for (std::size_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  return sums[0];
}

float clip_factor(double norm, double max_norm) {
  if (max_norm == 0) return 1;
  const double factor = max_norm / (norm + 1e-6);
  return static_cast<float>(factor > 1 ? 1 : factor); // not std::min, which would turn a NaN into 1
}

} // namespace mailgrad
