#pragma once

#include <mailgrad/tensor/stream.hpp>

#include <span>

namespace mailgrad {

/// The sum of a[i] * b[i], in float64.
///
/// Shapes  a, b: float32[n], the same n.
/// Errors  shape_error if sizes differ; device_error for a stream of a GPU.
double inner_product(const stream& s, std::span<const float> a, std::span<const float> b);

/// The sum of (a[i] - b[i])^2, in float64; exactly 0 for the same values.
///
/// Shapes  a, b: float32[n], the same n.
/// Errors  shape_error if sizes differ; device_error for a stream of a GPU.
double squared_distance(const stream& s, std::span<const float> a, std::span<const float> b);

} // namespace mailgrad
