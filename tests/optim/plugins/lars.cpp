#include <mailgrad/tests/optim/plugins/custom_whole_rules.hpp>

MAILGRAD_PLUGIN(mailgrad::testing::own_lars)
