#pragma once

#include <mailgrad/optim/plugin.hpp>

#include <cmath>

// Rules as a user would write them. Tests compare each with the built-in rule of the same name.

namespace mailgrad::testing {

struct own_sgd {
  static constexpr const char* name = "own-sgd";
  static constexpr std::size_t states = 0;
  static constexpr double default_learning_rate = 0.25;

  float learning_rate;
  void operator()(float& w, float g) const { w -= learning_rate * g; }
};

struct own_momentum {
  static constexpr const char* name = "own-momentum";
  static constexpr std::size_t states = 1;
  static constexpr mailgrad_rule_setting settings[] = {{"momentum", 0.9, 0, 1}};

  float learning_rate, momentum;
  void operator()(float& w, float g, float& v) const {
    v = momentum * v + g;
    w -= learning_rate * v;
  }
};

/// The bias correction needs the number of the step, so the constructor takes the whole mailgrad_rule_step.
struct own_adam {
  static constexpr const char* name = "own-adam";
  static constexpr std::size_t states = 2;
  static constexpr mailgrad_rule_setting settings[] = {
      {"beta1", 0.9, 0, 1}, {"beta2", 0.999, 0, 1}, {"epsilon", 1e-8, 0, HUGE_VAL}};

  double beta1, beta2, epsilon, rate;
  explicit own_adam(const mailgrad_rule_step& s)
      : beta1(s.settings[0]), beta2(s.settings[1]), epsilon(s.settings[2]), rate(s.learning_rate) {
    const auto t = static_cast<double>(s.step);
    rate *= std::sqrt(1 - std::pow(beta2, t)) / (1 - std::pow(beta1, t));
    epsilon *= std::sqrt(1 - std::pow(beta2, t));
  }
  void operator()(float& w, float g, float& m, float& v) const {
    m = static_cast<float>(beta1 * m + (1 - beta1) * g);
    v = static_cast<float>(beta2 * v + (1 - beta2) * g * g);
    w = static_cast<float>(w - rate * m / (std::sqrt(static_cast<double>(v)) + epsilon));
  }
};

} // namespace mailgrad::testing
