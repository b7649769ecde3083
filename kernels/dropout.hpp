#pragma once

#include <mailgrad/tensor/stream.hpp>

#include <cstddef>
#include <cstdint>

namespace mailgrad {

/// Decides which elements are dropped. The decision depends only on the rate, the seed, the step and the
/// position.
struct dropout_draw {
  float rate = 0.5F; ///< the probability that an element is dropped, in [0, 1)
  std::uint64_t seed = 0;
  std::uint64_t step = 0; ///< on a card its own word of the step counts instead (cuda::lane_words)

  /// An element is dropped if its random number is below this.
  std::uint32_t threshold() const { return static_cast<std::uint32_t>(static_cast<double>(rate) * 0x1p32); }
  /// The factor of the others.
  float scale() const { return 1 / (1 - rate); }
};

/// Zeroes each element with probability `rate` and divides the others by 1 - rate, which keeps the mean. For
/// a gradient it drops the same elements as in the forward pass, so no mask is stored.
///
/// Source  Srivastava et al., "Dropout", JMLR 15, 2014, section 10 for the scaling while training.
/// Shapes  x, y: float32[size]; y may be x.
/// Errors  device_error for a GPU this build lacks.
void dropout(const stream& s, const dropout_draw& draw, const float* x, float* y, std::size_t size);

} // namespace mailgrad

namespace mailgrad::cuda {

/// dropout() on a stream of a card. The step is that of the card's words, not of `draw`, so that a captured
/// launch draws anew in each step.
void dropout(const cuda_stream& s, const dropout_draw& draw, const float* x, float* y, std::size_t size);

} // namespace mailgrad::cuda
