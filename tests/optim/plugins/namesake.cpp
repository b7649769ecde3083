#include <mailgrad/optim/plugin.hpp>

// A rule called as that of every other plug-in built from this file, but for MAILGRAD_FACTOR.

struct namesake {
  static constexpr const char* name = "namesake";
  static constexpr std::size_t states = 0;
  static constexpr mailgrad_rule_setting settings[] = {{"factor", MAILGRAD_FACTOR, 0, 100}};

  float learning_rate, factor;
  void operator()(float& w, float g) const { w -= learning_rate * factor * g; }
};
MAILGRAD_PLUGIN(namesake)
