#pragma once

#include <span>

namespace mailgrad {

/// The sum of a[i] * b[i], in float64; of sum_of_squares(a) for a and b the same.
///
/// Shapes  a, b: float32[n], the same n.
/// Errors  shape_error if sizes differ.
double inner_product(std::span<const float> a, std::span<const float> b);

/// The sum of (a[i] - b[i])^2, in float64; exactly 0 for the same values.
///
/// Shapes  a, b: float32[n], the same n.
/// Errors  shape_error if sizes differ.
double squared_distance(std::span<const float> a, std::span<const float> b);

} // namespace mailgrad
