#pragma once

#include <mailgrad/kernels/functors/host_device.hpp>

#include <cmath>
#include <cstddef>

namespace mailgrad {

/// RMSProp, neither centred nor with momentum.
///
/// Source  Tieleman & Hinton, "Neural networks for machine learning", lecture 6e, 2012. Differs: epsilon is
///         added to the root, as in PyTorch.
struct rmsprop_update {
  static constexpr std::size_t states = 1;

  float learning_rate, alpha, one_minus_alpha, epsilon;

  MAILGRAD_HOST_DEVICE void operator()(float& w, float g, float& square_average) const {
    square_average = alpha * square_average + one_minus_alpha * g * g;
    w -= learning_rate * g / (std::sqrt(square_average) + epsilon);
  }
};

} // namespace mailgrad
