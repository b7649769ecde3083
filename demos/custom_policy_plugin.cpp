// A user's own policy as a shared library, for the tool:
//
//   mailgrad train --policy ./libcustom_policy_plugin.so:1 --devices cpu:0,cpu:0

#include "custom_policy.hpp"

MAILGRAD_POLICY(fair_turns)
