#include <mailgrad/demos/own_cure.hpp>

MAILGRAD_CURE(fading)
