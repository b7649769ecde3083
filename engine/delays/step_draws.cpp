#include <mailgrad/engine/delays/step_draws.hpp>

#include <cmath>
#include <numbers>

namespace mailgrad {

step_draws::step_draws(std::uint64_t seed, std::uint32_t worker, std::uint64_t step)
    : draw_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)},
      counter_{worker, static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(step >> 32), 0} {}

std::uint32_t step_draws::word() {
  if (used_ == words_.size()) {
    const philox::numbers four = draw_(counter_);
    words_ = {four.x0, four.x1, four.x2, four.x3};
    used_ = 0;
    ++counter_.x3;
  }
  return words_[used_++];
}

/// The middle of one of 2^53 equal parts of the unit interval.
double step_draws::uniform() {
  const std::uint64_t high = word();
  const std::uint64_t bits = (high << 32 | word()) >> 11;
  return (static_cast<double>(bits) + 0.5) * 0x1p-53;
}

double step_draws::exponential() { return -std::log(uniform()); }

double step_draws::normal() {
  const double radius = std::sqrt(2 * exponential());
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

double step_draws::gamma(double shape) {
  if (shape < 1) {
    const double more = gamma(shape + 1);
    return more * std::pow(uniform(), 1 / shape);
  }
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = normal();
    const double v = std::pow(1 + c * x, 3);
    if (v > 0 && std::log(uniform()) < x * x / 2 + d - d * v + d * std::log(v)) return d * v;
  }
}

} // namespace mailgrad
