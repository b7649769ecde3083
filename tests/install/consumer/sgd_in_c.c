#include <mailgrad/optim/plugin.h>

static void update(const mailgrad_rule_step* s) {
  size_t i;
  for (i = 0; i < s->count; ++i) s->updated[i] = s->weights[i] - (float)s->learning_rate * s->gradient[i];
}

static const mailgrad_rule rule = {INTERFACE_VERSION, 0, "sgd-in-c", 0.1, 0, NULL, update, 0, 0};

const mailgrad_rule* mailgrad_plugin_rule(void) { return &rule; }
