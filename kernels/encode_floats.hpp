#pragma once

#include <mailgrad/tensor/stream.hpp>

#include <cstddef>
#include <span>

namespace mailgrad {

// Numbers as 16 bits each, the lower byte first.
//
// With a residual, x + residual is encoded and the residual becomes what that lacks: x + residual - decoded.
// The difference is exact, so the one rounding is that of the sum.
//
// A finite number stays finite: a magnitude beyond the largest number of the format becomes that number, and
// the residual keeps the rest. A sum that is NaN or infinite is encoded as such, and its residual stays as it
// was, since none of it has arrived.
//
// Source  Karimireddy, Rebjock, Stich & Jaggi, "Error Feedback Fixes SignSGD and other Gradient Compression
//         Schemes", ICML 2019, Algorithm 2. Differs: the learning rate is not part of what is sent.
// Shapes  x: float32[n]; residual: float32[n], or empty for none; bytes: 2 n.
// Errors  shape_error for other lengths, nothing has changed then; device_error for a stream of a GPU.

void encode_float16(const stream& s, std::span<const float> x, std::span<float> residual,
                    std::span<std::byte> to);
void encode_bfloat16(const stream& s, std::span<const float> x, std::span<float> residual,
                     std::span<std::byte> to);
void decode_float16(const stream& s, std::span<const std::byte> from, std::span<float> to);
void decode_bfloat16(const stream& s, std::span<const std::byte> from, std::span<float> to);

} // namespace mailgrad
