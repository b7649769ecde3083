#pragma once

#include <mailgrad/kernels/functors/host_device.hpp>

#include <cstddef>

namespace mailgrad {

/// Stochastic gradient descent.
///
/// Source  Robbins & Monro, "A stochastic approximation method", Ann. Math. Statist. 22(3), 1951.
struct sgd_update {
  static constexpr std::size_t states = 0;

  float learning_rate;

  MAILGRAD_HOST_DEVICE void operator()(float& w, float g) const { w -= learning_rate * g; }
};

} // namespace mailgrad
