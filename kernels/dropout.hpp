#pragma once

#include <mailgrad/tensor/stream.hpp>

#include <cstddef>
#include <cstdint>

namespace mailgrad {

/// Which elements are dropped: the same ones for the same seed, step and position, whoever asks.
struct dropout_draw {
  float rate = 0.5F; ///< probability to be dropped, in [0, 1)
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
};

/// Zeroes each element with probability `rate` and divides the others by 1 - rate, which keeps the mean.
/// Applied to a gradient, it drops what it dropped in the forward pass: no mask is kept.
///
/// Source  Srivastava et al., "Dropout", JMLR 15, 2014, section 10 for the scaling while training.
/// Shapes  x, y: float32[size]; y may be x.
/// Errors  device_error for a stream of a GPU.
void dropout(const stream& s, const dropout_draw& draw, const float* x, float* y, std::size_t size);

} // namespace mailgrad
