// Compiles only with what a rule needs to run as fast as a built-in one.
#ifndef __OPTIMIZE__
#error "mailgrad::plugin does not optimise"
#endif
#ifndef __NO_MATH_ERRNO__
#error "mailgrad::plugin lets square roots set errno"
#endif
typedef int at_full_speed;
