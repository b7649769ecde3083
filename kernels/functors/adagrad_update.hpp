#pragma once

#include <mailgrad/kernels/functors/host_device.hpp>

#include <cmath>
#include <cstddef>

namespace mailgrad {

/// Adagrad, diagonal form.
///
/// Source  Duchi, Hazan & Singer, "Adaptive subgradient methods", JMLR 12, 2011, section 1.2. Differs: adds
///         epsilon to the root, as PyTorch does, where the paper adds delta to the matrix.
struct adagrad_update {
  static constexpr std::size_t states = 1;

  float learning_rate, epsilon;

  MAILGRAD_HOST_DEVICE void operator()(float& w, float g, float& sum) const {
    sum += g * g;
    w -= learning_rate * g / (std::sqrt(sum) + epsilon);
  }
};

} // namespace mailgrad
