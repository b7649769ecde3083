#include <mailgrad/tests/optim/plugins/custom_rules.hpp>

MAILGRAD_PLUGIN(mailgrad::testing::own_sgd)
