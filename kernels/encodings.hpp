#pragma once

#include <mailgrad/tensor/stream.hpp>

#include <optional>
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

// The numbers of the largest magnitude, exactly k of them, with their places.
//
// With a residual, the largest of x + residual are taken, and the residual becomes the others.
//
// Source  Aji & Heafield, "Sparse Communication for Distributed Gradient Descent", EMNLP 2017; Lin, Han, Mao,
//         Wang & Dally, "Deep Gradient Compression", ICLR 2018. Differs: the k largest are found exactly, not
//         by a threshold from a sample. What momentum does with the residual is left to the shard.
// Shapes  x: float32[n]; residual: float32[n], or empty for none; 4 bytes each for k places and k numbers.
// Errors  shape_error for other lengths, nothing has changed then; device_error for a stream of a GPU.

/// Tells the k largest from the others: those above `bits`, and the first `ties` that equal it.
struct magnitude_cut {
  std::uint32_t bits = 0; ///< of a float32 without its sign
  std::size_t ties = 0;

  friend bool operator==(const magnitude_cut&, const magnitude_cut&) = default;
};

/// Three passes over the numbers, which take no memory. Nothing if a number is not finite.
///
/// Errors  also shape_error unless 1 <= k <= n.
std::optional<magnitude_cut> cut_of_largest(const stream& s, std::span<const float> x,
                                            std::span<const float> residual, std::size_t k);

/// Writes k places, ascending, as uint32 and the numbers there, exactly. `cut` is what cut_of_largest() has
/// returned for the same numbers and k.
void encode_largest(const stream& s, std::span<const float> x, std::span<float> residual, magnitude_cut cut,
                    std::span<std::byte> places, std::span<std::byte> numbers);

/// Everything is 0 but the numbers at these places, which the caller has checked to be below to.size().
void decode_largest(const stream& s, std::span<const std::byte> places, std::span<const std::byte> numbers,
                    std::span<float> to);

// A block of numbers as one bit each: 0 stands for the mean of those below zero, 1 for the mean of the
// others.
//
// With a residual, x + residual is encoded and the residual becomes what that lacks.
//
// Source  Seide, Fu, Droppo, Li & Yu, "1-Bit Stochastic Gradient Descent and its Application to Data-Parallel
//         Distributed Training of Speech DNNs", Interspeech 2014: a threshold of zero, means, error feedback.
//         Differs: a block takes the place of a column of a weight matrix.
// Shapes  x: float32[n]; residual: float32[n], or empty for none; bits: ceil(n / 8) bytes. Number i is bit
//         i % 8, counted from the lowest, of byte i / 8; the bits behind the last number are 0.
// Errors  shape_error for other lengths, nothing has changed then; device_error for a stream of a GPU.

/// Each is 0 if it is the mean of no number.
struct sign_means {
  float negative = 0;
  float other = 0;

  friend bool operator==(const sign_means&, const sign_means&) = default;
};

/// The means, added up in float64 in a fixed order, so that the same values give the same bits at any vector
/// width. One of them is NaN or infinite if and only if a number is.
sign_means means_of_signs(const stream& s, std::span<const float> x, std::span<const float> residual);

/// `means` is what means_of_signs() has returned for the same numbers; both are finite.
void encode_signs(const stream& s, std::span<const float> x, std::span<float> residual, sign_means means,
                  std::span<std::byte> to);

void decode_signs(const stream& s, std::span<const std::byte> from, sign_means means, std::span<float> to);

} // namespace mailgrad
