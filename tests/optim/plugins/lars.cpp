#include <mailgrad/tests/optim/plugins/own_whole_rules.hpp>

MAILGRAD_PLUGIN(mailgrad::testing::own_lars)
