#pragma once

#include <mailgrad/kernels/functors/host_device.hpp>

#include <cmath>
#include <cstddef>

namespace mailgrad {

/// Adam with bias correction. With `weight_penalty::decay` around it, it is AdamW.
///
/// Source  Kingma & Ba, ICLR 2015, Algorithm 1, arXiv:1412.6980. The corrections depend only on the step, so
///         the caller computes them: step_size = learning_rate / (1 - beta1^t), root_bias2 = 1 / sqrt(1 -
///         beta2^t).
struct adam_update {
  static constexpr std::size_t states = 2;

  float step_size, beta1, one_minus_beta1, beta2, one_minus_beta2, root_bias2, epsilon;

  MAILGRAD_HOST_DEVICE void operator()(float& w, float g, float& m, float& v) const {
    m = beta1 * m + one_minus_beta1 * g;
    v = beta2 * v + one_minus_beta2 * g * g;
    w -= step_size * m / (std::sqrt(v) * root_bias2 + epsilon);
  }
};

} // namespace mailgrad
