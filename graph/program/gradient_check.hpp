#pragma once

#include <mailgrad/graph/program/trial_run.hpp>

namespace mailgrad {

struct gradient_tolerance {
  float epsilon = 5e-3F;  ///< how far a coordinate is moved to either side
  double relative = 2e-3; ///< largest difference allowed, as a multiple of 1 + the magnitude of the slope
};

/// One coordinate whose gradient differs from the measured slope.
struct gradient_mismatch {
  std::string source;      ///< name of the input or variable
  std::size_t element = 0; ///< row-major
  double found = 0;        ///< the gradient that the operations give
  double expected = 0;     ///< the central difference
};

/// "gradient with respect to 'x' [3] is 0.5, where the difference quotient is 0.25"
std::string to_string(const gradient_mismatch& m);

/// Compares the gradient of a weighted sum of `y`, with fixed weights, with central differences. It does so
/// for each coordinate of each of `sources`, which are inputs or variables.
///
/// The check runs the program twice for each coordinate, so shapes should be small. A function with kinks,
/// such as relu, has no slope at a kink, so values must be farther than epsilon from it.
///
/// Errors  graph_error as trial_run and gradients().
/// Returns the coordinates that differ by more than is allowed; none if the gradient is right.
std::vector<gradient_mismatch> check_gradients(const value& y, std::span<const value> sources,
                                               const feeds& fed = {}, const gradient_tolerance& allowed = {},
                                               std::uint64_t step = 0);

} // namespace mailgrad
