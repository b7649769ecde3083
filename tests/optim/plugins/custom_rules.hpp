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

/// LARS without decay, for tests to compare with the built-in rule.
struct own_lars {
  static constexpr const char* name = "own-lars";
  static constexpr std::size_t states = 1;
  static constexpr bool whole_variables = true;
  static constexpr double default_learning_rate = 1;
  static constexpr mailgrad_rule_setting settings[] = {{"trust", 0.02, 0, 10}, {"momentum", 0.9, 0, 1}};

  float learning_rate, trust, momentum;

  void operator()(const mailgrad_rule_step& s) const {
    const double of_weights = length(s.weights, s.count), of_gradient = length(s.gradient, s.count);
    float rate = learning_rate;
    if (of_weights > 0 && of_gradient > 0) rate *= trust * static_cast<float>(of_weights / of_gradient);
    for (std::size_t i = 0; i < s.count; ++i) {
      float& v = s.states[0][i];
      v = momentum * v + rate * s.gradient[i];
      s.updated[i] = s.weights[i] - v;
    }
  }

  static double length(const float* x, std::size_t n) {
    double squares = 0;
    for (std::size_t i = 0; i < n; ++i) squares += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    return std::sqrt(squares);
  }
};

/// Writes what it is told of a variable into the weights: its rank, the product of its extents, its offset,
/// and the first letter of its name.
struct tells_layout {
  static constexpr const char* name = "tells-layout";
  static constexpr std::size_t states = 0;
  static constexpr bool whole_variables = true;

  float learning_rate;

  void operator()(const mailgrad_rule_step& s) const {
    std::size_t product = 1;
    for (std::size_t axis = 0; axis < s.variable->rank; ++axis) product *= s.variable->extents[axis];
    const float told[] = {static_cast<float>(s.variable->rank), static_cast<float>(product),
                          static_cast<float>(s.variable->offset), static_cast<float>(s.variable->name[0])};
    for (std::size_t i = 0; i < s.count; ++i) s.updated[i] = told[i % 4];
  }
};

} // namespace mailgrad::testing
