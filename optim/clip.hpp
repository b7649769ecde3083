#pragma once

#include <mailgrad/kernels/vectors.hpp>

namespace mailgrad {

/// The sum of squares of a gradient block, in float64.
///
/// It adds sixteen partial sums in a fixed order, so the same values give the same bits at any vector width.
/// The global norm of several blocks is the root of the total of their sums. Where a sparse gradient repeats
/// a row, each repeat counts on its own, not the summed row.
///
/// Errors  device_error for a GPU where the sum is returned; `result` lies in memory of the stream.
inline double sum_of_squares(const stream& s, std::span<const float> values) {
  return inner_product(s, values, values);
}
inline void sum_of_squares(const stream& s, std::span<const float> values, double* result) {
  inner_product(s, values, values, result);
}

/// The factor that shortens a gradient of this norm to at most `max_norm`; 1 if it is short enough.
///
/// A worker computes the norm over its whole gradient, all shards, and pushes the factor as the gradient's
/// scale. So each worker's gradient is clipped on its own, and the mean of the gradients is at most as long.
/// Source  Pascanu, Mikolov & Bengio, "On the difficulty of training recurrent neural networks", ICML 2013,
///         Algorithm 1. Differs: max_norm / (norm + 1e-6), as PyTorch does. A NaN or infinite norm gives NaN
///         or 0, never a silent 1.
/// Units   both norms have the unit of the gradient; max_norm 0 clips nothing.
inline float clip_factor(double norm, double max_norm) {
  if (max_norm == 0) return 1;
  const double factor = max_norm / (norm + 1e-6);
  return static_cast<float>(factor > 1 ? 1 : factor); // not std::min, which would turn a NaN into 1
}

} // namespace mailgrad
