#pragma once

#include <mailgrad/kernels/functors/update_rule.hpp>
#include <mailgrad/optim/optimizer_options.hpp>

#include <cmath>
#include <cstdint>

namespace mailgrad {

/// The functor of Adam's step `step`, counted from 1.
inline adam_update adam_step(const adam_options& o, double rate, std::uint64_t step) {
  const auto t = static_cast<double>(step);
  const double bias1 = 1 - std::pow(o.beta1, t);
  const double bias2 = 1 - std::pow(o.beta2, t);
  return adam_update{static_cast<float>(rate / bias1), static_cast<float>(o.beta1),
                     static_cast<float>(1 - o.beta1),  static_cast<float>(o.beta2),
                     static_cast<float>(1 - o.beta2),  static_cast<float>(1 / std::sqrt(bias2)),
                     static_cast<float>(o.epsilon)};
}

} // namespace mailgrad
