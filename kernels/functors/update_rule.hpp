#pragma once

#include <mailgrad/kernels/functors/host_device.hpp>

#include <cmath>
#include <variant>

namespace mailgrad {

/// Stochastic gradient descent.
///
/// Source  Robbins & Monro, "A stochastic approximation method", Ann. Math. Statist. 22(3), 1951.
struct sgd_update {
  static constexpr std::size_t states = 0;

  float learning_rate;
  MAILGRAD_HOST_DEVICE void operator()(float& w, float g) const { w -= learning_rate * g; }
};

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

/// Every update rule, with its factors for one step: `rule(w, g, state...)` changes one weight and its
/// `states` floats.
///
/// A rule in this list runs on dense and sparse gradients, on the host and on a GPU. optimizer_options::rule
/// lists the options of each.
using update_rule = std::variant<sgd_update, momentum_update, nesterov_update, adagrad_update, rmsprop_update,
                                 adam_update, delayed_nesterov_update>;

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

/// Calls `f` with the rule, wrapped in its penalty if there is one.
template <class F>
void with_rule(const update_rule& rule, const weight_penalty& penalty, F f) {
  std::visit(
      [&]<class Rule>(const Rule& r) {
        if (penalty.none())
          f(r);
        else
          f(penalised_update<Rule>{r, penalty});
      },
      rule);
}

} // namespace mailgrad
