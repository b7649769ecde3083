#include <mailgrad/optim/plugin.hpp>

// A rule as it should be; each macro spoils one thing, which plugin.hpp has to refuse while it compiles.

#ifndef NAME
#define NAME "mine"
#endif
#ifndef STATES
#define STATES 0
#endif
#ifndef SETTINGS
#define SETTINGS                                                                                             \
  {"beta1", 0.9, 0, 1}, { "beta2", 0.99, 0, 1 }
#endif
#ifndef FIELDS
#define FIELDS learning_rate, beta1, beta2
#endif

struct mine {
  static constexpr const char* name = NAME;
  static constexpr std::size_t states = STATES;
  static constexpr mailgrad_rule_setting settings[] = {SETTINGS};

  float FIELDS;
  template <class... States>
  void operator()(float& w, float g, States&...) const {
    w -= learning_rate * (beta1 + beta2) * g;
  }
};
MAILGRAD_PLUGIN(mine)
