#include <mailgrad/optim/plugin.hpp>

#include <cmath>

struct adam {
  static constexpr const char* name = "adam";
  static constexpr std::size_t states = 2;
  static constexpr mailgrad_rule_setting settings[] = {
      {"beta1", 0.9, 0, 1}, {"beta2", 0.999, 0, 1}, {"epsilon", 1e-8, 0, HUGE_VAL}};

  float step_size, beta1, beta2, root_bias2, epsilon;
  explicit adam(const mailgrad_rule_step& s)
      : beta1(static_cast<float>(s.settings[0])), beta2(static_cast<float>(s.settings[1])),
        epsilon(static_cast<float>(s.settings[2])) {
    const auto t = static_cast<double>(s.step);
    step_size = static_cast<float>(s.learning_rate / (1 - std::pow(s.settings[0], t)));
    root_bias2 = static_cast<float>(1 / std::sqrt(1 - std::pow(s.settings[1], t)));
  }
  void operator()(float& w, float g, float& m, float& v) const {
    m = beta1 * m + (1 - beta1) * g;
    v = beta2 * v + (1 - beta2) * g * g;
    w -= step_size * m / (std::sqrt(v) * root_bias2 + epsilon);
  }
};
MAILGRAD_PLUGIN(adam)
