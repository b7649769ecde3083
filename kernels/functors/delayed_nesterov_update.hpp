#pragma once

#include <mailgrad/kernels/functors/host_device.hpp>

#include <cstddef>

namespace mailgrad {

/// Delayed Nesterov: the momentum moves once in N gradients, by their mean, and a part of it goes into each
/// step.
///
/// Source  Liu et al., "Asynchronous Local-SGD training for language modeling", 2024, arXiv:2401.09135,
///         Algorithm 3. What depends on the step alone comes ready: in the last of N steps the momentum keeps
///         beta of itself, takes 1 / N of the sum of gradients, which then starts anew, and reaches (1 - cN +
///         c) beta into the step; in the others it stays, and reaches c beta. share = 1 / N. N = 1 is
///         Nesterov's momentum. Differs in sparse tables: a row that the last step of a period leaves alone
///         keeps its sum for a later one.
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
