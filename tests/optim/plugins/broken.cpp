#include <mailgrad/tests/optim/plugins/custom_rules.hpp>

// A plug-in with one thing wrong, which its build names.

#ifdef MAILGRAD_NO_ENTRY

int mailgrad_plugin_rule_of_another_name() { return 0; }

#else

[[maybe_unused]] static void looks_at_neighbours(const mailgrad_rule_step* s) {
  for (std::size_t i = 0; i < s->count; ++i)
    s->updated[i] = s->weights[i] - 0.1F * (s->gradient[i] + s->gradient[i > 0 ? i - 1 : 0]);
}

const mailgrad_rule* mailgrad_plugin_rule() {
  static mailgrad_rule rule = mailgrad::rule_table<mailgrad::testing::own_sgd>;
  MAILGRAD_BREAK;
  return &rule;
}

#endif
