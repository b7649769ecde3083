#pragma once

#include <cstddef>
#include <vector>

// What is known exactly of `async` with M workers whose steps take exponential times of one mean: each update
// is equally likely to come from each of them. x(t+1) = x(t) + beta (x(t) - x(t-1)) - a w, where w is what
// that worker has read; it then reads x(t+1). `a` is the step times the curvature, beta the explicit
// momentum.
//
// Source  for the mean Mitliagkas et al., "Asynchrony begets momentum", Allerton 2016: without explicit
//         momentum it moves as descent with momentum 1 - 1/M and the step a / M. The second moments follow
//         from the same rule.

namespace mailgrad::lab {

/// E x(t) for t = 0, ..., `last`, from 1 on.
std::vector<double> mean_path(double workers, double a, std::size_t last, double beta = 0);

/// E x(t)^2 for t = 0, ..., `last`, from x(0) = `start` on, with noise of mean square `noise` in each update.
std::vector<double> mean_square_path(double workers, double a, double start, double noise, std::size_t last);

/// Below this step E x^2 stays finite without momentum, though the mean alone would bear larger ones.
double largest_mean_square_step(double workers);

/// E x^2 where noise keeps it in the end, over that of the noise in one update; infinite for a step that is
/// not stable.
double floor_of_memoryless(double workers, double a);

/// By so much the root of E x^2 shrinks or grows with an update, in the end.
double mean_square_radius(double workers, double a, double beta);

/// The step, for the largest curvature 1, at which coordinates of curvature 1 and 1 / `condition` shrink
/// best together, and the larger of their radii.
struct best_descent {
  double step = 0;
  double radius = 1;
};
best_descent best_with_momentum(double workers, double beta, double condition);

} // namespace mailgrad::lab
