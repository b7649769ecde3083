#include <mailgrad/tests/optim/plugins/custom_rules.hpp>

MAILGRAD_PLUGIN(mailgrad::testing::MAILGRAD_RULE)
