#pragma once

#include <mailgrad/kernels/functors/host_device.hpp>

#include <cstddef>

namespace mailgrad {

/// Nesterov's accelerated gradient, rewritten so that the stored weight is the one looked ahead to.
///
/// Source  Sutskever, Martens, Dahl & Hinton, "On the importance of initialization and momentum in deep
///         learning", ICML 2013, section 2, after the change of variables of Bengio, Boulanger-Lewandowski &
///         Pascanu, arXiv:1212.0901, eq. 7. Differs: the learning rate stands outside the velocity, as in
///         PyTorch.
struct nesterov_update {
  static constexpr std::size_t states = 1;

  float learning_rate, momentum;

  MAILGRAD_HOST_DEVICE void operator()(float& w, float g, float& v) const {
    v = momentum * v + g;
    w -= learning_rate * (g + momentum * v);
  }
};

} // namespace mailgrad
