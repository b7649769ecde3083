#include <mailgrad/demos/custom_policy.hpp>

MAILGRAD_POLICY(fair_turns)
