#pragma once

#include <mailgrad/tensor/stream.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace mailgrad {

// A block of numbers as whole multiples, from -127 to 127, of one scale.
//
// With a residual, x + residual is encoded and the residual becomes what that lacks. Each number is off by at
// most half the scale.
//
// Source  Dettmers, "8-Bit Approximations for Parallelism in Deep Learning", ICLR 2016, and Alistarh et al.,
//         "QSGD", NIPS 2017, for a scale for each block. Differs: multiples are equally far apart, and are
//         rounded to the nearest, since the residual makes up for the bias that QSGD avoids by chance.
// Shapes  x: float32[n]; residual: float32[n], or empty for none; multiples: int8[n].
// Errors  shape_error for other lengths, nothing has changed then; device_error for a stream of a GPU.

/// The scale of a block: a 127th of its largest magnitude, rounded so that the largest multiple is a finite
/// number. 0 for a block of zeros; NaN if a number is not finite.
float int8_scale(const stream& s, std::span<const float> x, std::span<const float> residual);

/// `scale` is what int8_scale() has returned for the same numbers, and no NaN.
void encode_int8(const stream& s, std::span<const float> x, std::span<float> residual, float scale,
                 std::span<std::int8_t> to);

void decode_int8(const stream& s, std::span<const std::int8_t> from, float scale, std::span<float> to);

} // namespace mailgrad
