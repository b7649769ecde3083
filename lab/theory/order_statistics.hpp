#pragma once

#include <cstdint>

// Times that workers wait for one another, in the mean and as they differ.

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

} // namespace mailgrad::lab
