#include <mailgrad/optim/plugin.hpp>

struct plain_sgd {
  static constexpr const char* name = "plain-sgd";
  static constexpr std::size_t states = 0;

  float learning_rate;
  void operator()(float& w, float g) const { w -= learning_rate * g; }
};
MAILGRAD_PLUGIN(plain_sgd)
