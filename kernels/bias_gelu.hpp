#pragma once

#include <mailgrad/tensor/numbers.hpp>
#include <mailgrad/tensor/stream.hpp>

#include <cstddef>

namespace mailgrad {

/// Computes y = gelu(x + b) and the slope of gelu at x + b. Both need the same expensive function, so
/// computing the slope here leaves only a product for the gradient.
///
/// Source  Hendrycks & Gimpel, arXiv:1606.08415: z Phi(z), with slope Phi(z) + z phi(z).
/// Shapes  x, y, slope: float32[rows, columns], on a card each may be bfloat16; b: [columns]. y may be x
///         if both are of one type.
/// Errors  device_error for a stream of a card in a build without CUDA.
void bias_gelu(const stream& s, read_numbers x, const float* b, written_numbers y, written_numbers slope,
               std::size_t rows, std::size_t columns);

/// dz = slope * dy, and db, its sum over rows.
///
/// Shapes  as bias_gelu, with dy and dz as x and y.
/// Errors  as bias_gelu.
void bias_gelu_gradient(const stream& s, read_numbers slope, read_numbers dy, written_numbers dz, float* db,
                        std::size_t rows, std::size_t columns);

} // namespace mailgrad

namespace mailgrad::cuda {

// The same on a card.

void bias_gelu(const cuda_stream& s, read_numbers x, const float* b, written_numbers y, written_numbers slope,
               std::size_t rows, std::size_t columns);
void bias_gelu_gradient(const cuda_stream& s, read_numbers slope, read_numbers dy, written_numbers dz,
                        float* db, std::size_t rows, std::size_t columns);

} // namespace mailgrad::cuda
