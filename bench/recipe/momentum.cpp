#include <mailgrad/optim/plugin.hpp>

struct momentum {
  static constexpr const char* name = "momentum";
  static constexpr std::size_t states = 1;
  static constexpr mailgrad_rule_setting settings[] = {{"momentum", 0.9, 0, 1}};

  float learning_rate, momentum;
  void operator()(float& w, float g, float& v) const {
    v = momentum * v + g;
    w -= learning_rate * v;
  }
};
MAILGRAD_PLUGIN(momentum)
