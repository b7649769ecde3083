#pragma once

#include <mailgrad/kernels/functors/host_device.hpp>

#include <cstddef>

namespace mailgrad {

/// Heavy-ball momentum.
///
/// Source  Polyak, "Some methods of speeding up the convergence of iteration methods", 1964, in the form of
///         Sutskever et al., ICML 2013. Differs: the velocity v collects gradients and the learning rate
///         multiplies it afterwards, as in PyTorch, so a schedule acts at once on the gradients collected.
struct momentum_update {
  static constexpr std::size_t states = 1;

  float learning_rate, momentum;

  MAILGRAD_HOST_DEVICE void operator()(float& w, float g, float& v) const {
    v = momentum * v + g;
    w -= learning_rate * v;
  }
};

} // namespace mailgrad
