// A user's own update rule as a shared library. It needs Mailgrad's headers only and links with nothing:
//
//   mailgrad train --optimizer ./libcustom_rule_plugin.so:beta1=0.95 --lr 0.0003 --weight-decay 0.1

#include <mailgrad/optim/plugin.hpp>

/// Lion.
///
/// Source  Chen et al., "Symbolic discovery of optimization algorithms", NeurIPS 2023, Algorithm 2,
///         arXiv:2302.06675. Its decoupled weight decay is Mailgrad's own, which every rule shares.
struct lion {
  static constexpr const char* name = "lion";
  static constexpr std::size_t states = 1;
  static constexpr double default_learning_rate = 1e-4;
  static constexpr mailgrad_rule_setting settings[] = {{"beta1", 0.9, 0, 1}, {"beta2", 0.99, 0, 1}};

  float learning_rate, beta1, beta2;

  void operator()(float& w, float g, float& m) const {
    const float direction = beta1 * m + (1 - beta1) * g;
    w -= learning_rate * static_cast<float>((direction > 0) - (direction < 0));
    m = beta2 * m + (1 - beta2) * g;
  }
};
MAILGRAD_PLUGIN(lion)
