#pragma once

#include <mailgrad/graph/value.hpp>

#include <optional>

namespace mailgrad {

/// What the curvature of a quadratic looks like.
enum class quadratic_form : std::uint8_t {
  diagonal, ///< each coordinate has a curvature of its own
  chain,    ///< neighbouring coordinates are coupled: Nesterov's worst function
};

/// Which coordinates the noise of a gradient tells apart.
enum class noise_form : std::uint8_t {
  each,   ///< a number of its own for each
  common, ///< one number for all of them, so the noise has rank 1
};

/// The quadratic of d coordinates that the lab trains, because what staleness does to it is known exactly.
///
/// diagonal  the mean over the batch of sum_j h_j (x_j - c)^2 / 2, where c is the target of a sample, or 0.
///           The curvatures h_j rise from curvature / condition to curvature, each by the same factor.
/// chain     x'Ax/2 - b'x and a constant that makes its least value 0, with
///           A = curvature / 4 tridiag(-1, 2, -1) and b = (-curvature / 4, 0, ..., 0), read at
///           x + (sqrt(d), 0, ..., 0). It has neither condition nor targets.
/// Source    chain: the code of Maranjyan, Tyurin & Richtarik, "Ringmaster ASGD", ICML 2025.
struct quadratic_options {
  quadratic_form form = quadratic_form::diagonal;
  double curvature = 1;
  double condition = 1; ///< at least 1
  /// The standard deviation of a normal number that is added to each coordinate of a sample's gradient. The
  /// loss has no noise.
  double noise = 0;
  noise_form noise_of = noise_form::each;
  std::uint64_t seed = 1; ///< of the noise, which depends only on it, the number of the batch, and j
};

/// The loss and, for each sample of a batch, the mean of all coordinates in each of `outputs` columns.
struct quadratic_result {
  value loss;
  value means;
};

/// Builds it. The gradient of the loss carries the noise.
///
/// Shapes  x: float32[d]. targets: float32[batch], or nothing. loss: scalar. means: float32[batch, outputs].
/// Errors  graph_error for another shape, a curvature or a condition that is none, or targets of a chain.
quadratic_result quadratic(const value& x, const std::optional<value>& targets, std::size_t batch,
                           std::size_t outputs, const quadratic_options& options,
                           std::source_location where = std::source_location::current());

} // namespace mailgrad
