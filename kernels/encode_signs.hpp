#pragma once

#include <mailgrad/tensor/stream.hpp>

#include <cstddef>
#include <span>

namespace mailgrad {

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
