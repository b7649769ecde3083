#include <mailgrad/tests/optim/plugins/own_rules.hpp>

MAILGRAD_PLUGIN(mailgrad::testing::own_momentum)
