#include <mailgrad/tests/optim/plugins/own_rules.hpp>

// A plug-in with one thing wrong, which its build names.

#ifdef MAILGRAD_NO_ENTRY

int mailgrad_plugin_rule_of_another_name() { return 0; }

#else

const mailgrad_rule* mailgrad_plugin_rule() {
  static mailgrad_rule rule = mailgrad::rule_table<mailgrad::testing::own_sgd>;
  MAILGRAD_BREAK;
  return &rule;
}

#endif
