#include <mailgrad/engine/delays/delay_law.hpp>

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

outage_delay::outage_delay(drawn_worker who, const terms& t)
    : terms_(t), phase_(t.every * step_draws(who.seed, who.worker, 0).uniform()) {}

/// A period is time to work and then an outage.
double outage_delay::seconds(std::uint64_t, double begins) {
  const double works = terms_.every - terms_.lasts;
  const double at = std::fmod(begins + phase_, terms_.every);
  const double before = at < works ? 0 : terms_.every - at; // until the outage that it begins in has passed
  const double left = at < works ? works - at : works;      // until the next one
  const double outages = terms_.time <= left ? 0 : std::ceil((terms_.time - left) / works);
  return std::min(before + terms_.time + outages * terms_.lasts, longest);
}

} // namespace mailgrad
