#pragma once

// What is known exactly of descent whose gradients all have one delay,
// x(t+1) = x(t) + beta (x(t) - x(t-1)) - a x(t-tau): a quadratic of one coordinate, where `a` is the step
// times the curvature, and beta the momentum. Equal workers that take turns train so, with tau one less than
// their number.

namespace mailgrad::lab {

/// The modulus of the largest root of the characteristic polynomial: by so much the weights shrink or grow
/// with an update, in the end.
double radius_of_fixed_delay(unsigned tau, double a, double beta = 0);

/// The least step at which that radius is 1. Without momentum it is 2 sin(pi / (4 tau + 2)).
double largest_stable_step(unsigned tau, double beta = 0);

/// The step without momentum whose radius is the least, and that radius.
struct best_rate {
  double step = 1;
  double radius = 0;
};
best_rate best_of_fixed_delay(unsigned tau);

/// E x^2 where noise keeps it in the end, over that of the noise in one update; infinite for a step that is
/// not stable.
double floor_of_fixed_delay(unsigned tau, double a);

} // namespace mailgrad::lab
