#include <mailgrad/demos/custom_cure.hpp>

MAILGRAD_CURE(fading)
