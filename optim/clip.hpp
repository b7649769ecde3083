#pragma once

#include <span>

namespace mailgrad {

/// The sum of squares of a gradient block, in float64.
///
/// Sixteen partial sums in a fixed order: the same values give the same bits whatever the vector width. A
/// global norm over several blocks is the root of their sums; where a sparse gradient repeats a row, its norm
/// is that of the list, not of the summed row.
double sum_of_squares(std::span<const float> values);

/// The factor that brings a gradient of this norm down to at most `max_norm`; 1 if it is there already.
///
/// A device takes it over its whole gradient, all shards, and pushes it as the gradient's scale. So with
/// several workers each one's gradient is clipped by itself, and the mean of them is at most as long.
/// Source  Pascanu, Mikolov & Bengio, "On the difficulty of training recurrent neural networks", ICML 2013,
///         Algorithm 1. Differs: max_norm / (norm + 1e-6), as PyTorch does. A NaN or infinite norm gives NaN
///         or 0, never a silent 1.
/// Units   norms in those of the gradient; max_norm 0 clips nothing.
float clip_factor(double norm, double max_norm);

} // namespace mailgrad
