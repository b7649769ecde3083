#pragma once

#include <mailgrad/tensor/small_floats.hpp>
#include <mailgrad/tensor/stream.hpp>

#include <span>

namespace mailgrad {

/// Rounds each number to the nearest bfloat16, of two equally near to the one whose last bit is 0. A NaN
/// stays one; what rounds to 2^128 becomes infinite. It is for operands of products on a card;
/// encodings.hpp has what messages are made of.
///
/// Shapes  y: bfloat16[n], apart from x.
/// Errors  device_error for a stream of a card in a build without CUDA.
void round_floats(const stream& s, std::span<const float> x, bfloat16* y);

/// The float32 that each bfloat16 is, exactly.
///
/// Shapes  y: float32[n], apart from x.
/// Errors  as round_floats.
void widen_floats(const stream& s, std::span<const bfloat16> x, float* y);

} // namespace mailgrad

namespace mailgrad::cuda {

// The same on a card.

void round_floats(const cuda_stream& s, std::span<const float> x, bfloat16* y);
void widen_floats(const cuda_stream& s, std::span<const bfloat16> x, float* y);

} // namespace mailgrad::cuda
