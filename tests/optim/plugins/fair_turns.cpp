#include <mailgrad/demos/own_policy.hpp>

MAILGRAD_POLICY(fair_turns)
