#pragma once

#include <mailgrad/kernels/functors/host_device.hpp>

#include <cstddef>

namespace mailgrad {

/// Delayed Nesterov: the momentum is updated once in N gradients, by their mean, and each step applies a part
/// of it.
///
/// Source  Liu et al., "Asynchronous Local-SGD training for language modeling", 2024, arXiv:2401.09135,
///         Algorithm 3. N = 1 is Nesterov's momentum. The caller computes the factors, since they depend only
///         on the step; share is always 1 / N. Differs in sparse tables: a row that the last step of a period
///         does not touch keeps its sum for a later step.
///
///            step of the period   keep   take    carry   reach
///            the last of N        beta   1 / N   0       (1 - cN + c) beta
///            any other            1      0       1       c beta
struct delayed_nesterov_update {
  static constexpr std::size_t states = 2;

  float step_size, keep, take, reach, share, carry;

  MAILGRAD_HOST_DEVICE void operator()(float& w, float g, float& momentum, float& sum) const {
    sum += g;
    momentum = keep * momentum + take * sum;
    sum *= carry;
    w -= step_size * (reach * momentum + share * g);
  }
};

} // namespace mailgrad
