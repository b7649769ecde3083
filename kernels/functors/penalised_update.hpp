#pragma once

#include <mailgrad/kernels/functors/host_device.hpp>

#include <cstddef>

namespace mailgrad {

/// The two ways to pull weights towards zero. Both use the weight before the update.
///
/// Source  Loshchilov & Hutter, "Decoupled weight decay regularization", ICLR 2019, arXiv:1711.05101.
///         Differs: decays by learning_rate * weight_decay, as PyTorch does; the paper has eta * lambda.
struct weight_penalty {
  float l2 = 0;    ///< in the loss: the gradient becomes g + l2 * w
  float decay = 0; ///< decoupled: learning_rate * weight_decay in this step; the weight becomes w - decay * w

  bool none() const { return l2 == 0 && decay == 0; }
};

/// Any update rule with both penalties around it, so that no rule needs to contain them.
template <class Rule>
struct penalised_update {
  static constexpr std::size_t states = Rule::states;

  Rule rule;
  weight_penalty penalty;

  template <class... State>
  MAILGRAD_HOST_DEVICE void operator()(float& w, float g, State&... state) const {
    g += penalty.l2 * w;
    w -= penalty.decay * w;
    rule(w, g, state...);
  }
};

} // namespace mailgrad
