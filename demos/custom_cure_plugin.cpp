// A user's own cure as a shared library, for the tool:
//
//   mailgrad train --cure ./libcustom_cure_plugin.so:0.9 --devices cpu:0,cpu:0

#include "custom_cure.hpp"

MAILGRAD_CURE(fading)
