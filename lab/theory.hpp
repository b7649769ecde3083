#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

// Times that workers wait for one another, in the mean and as they differ.

// What is known exactly of `async` with M workers whose steps take exponential times of one mean: each update
// is equally likely to come from each of them. x(t+1) = x(t) + beta (x(t) - x(t-1)) - a w, where w is what
// that worker has read; it then reads x(t+1). `a` is the step times the curvature, beta the explicit
// momentum.
//
// Source  for the mean Mitliagkas et al., "Asynchrony begets momentum", Allerton 2016: without explicit
//         momentum it moves as descent with momentum 1 - 1/M and the step a / M. The second moments follow
//         from the same rule.

// What is known exactly of descent whose gradients all have one delay,
// x(t+1) = x(t) + beta (x(t) - x(t-1)) - a x(t-tau): a quadratic of one coordinate, where `a` is the step
// times the curvature, and beta the momentum. Equal workers that take turns train so, with tau one less than
// their number.

namespace mailgrad::lab {

/// The k-th smallest of m exponential times of mean 1: 1/m + ... + 1/(m - k + 1). The mean of the largest is
/// how long a barrier waits.
double mean_of_kth_exponential(std::uint32_t k, std::uint32_t m);
/// Its standard deviation: the root of 1/m^2 + ... + 1/(m - k + 1)^2.
double deviation_of_kth_exponential(std::uint32_t k, std::uint32_t m);

/// The same of times with P(X > x) = x^-alpha from 1 on; infinite if the largest has no mean.
double mean_of_kth_pareto(std::uint32_t k, std::uint32_t m, double alpha);
/// Its standard deviation; infinite if it has none.
double deviation_of_kth_pareto(std::uint32_t k, std::uint32_t m, double alpha);

/// Of m workers whose times are `shift` and an exponential time of mean 1, how many to wait for, so that a
/// gradient of an update takes the least time, where the others are interrupted.
///
/// Source  Chen et al., "Revisiting distributed synchronous SGD", 2016, which waits for 96 of 100.
std::uint32_t best_number_to_wait_for(std::uint32_t m, double shift);

/// The share of the work of n learners that merges take, if they wait for a quorum of K and each learner is
/// up with probability `up`, whether others are or not: (1/n) sum over u = K..n of u C(n,u) up^u
/// (1-up)^(n-u).
double goodput_of_quorum(std::uint32_t learners, std::uint32_t quorum, double up);

/// The t that a value of Student's distribution exceeds, on either side, with the probability `beyond`. It
/// says how many of its own standard errors a mean of `freedom` + 1 normal values is off by chance; with two
/// values and a thousandth these are 637, with eight 5.4, and with many 3.3.
///
/// Source  Abramowitz & Stegun, Handbook of Mathematical Functions, 1964, 26.7.3 and 26.7.4.
/// Errors  infinite without a degree of freedom.
double students_quantile(std::uint64_t freedom, double beyond);

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
