#pragma once

#include <mailgrad/tensor/stream.hpp>

#include <cstddef>

namespace mailgrad {

/// Computes y = gelu(x + b) and the slope of gelu at x + b. Both need the same expensive function, so
/// computing the slope here leaves only a product for the gradient.
///
/// Source  Hendrycks & Gimpel, arXiv:1606.08415: z Phi(z), with slope Phi(z) + z phi(z).
/// Shapes  x, y, slope: float32[rows, columns]; b: [columns]. y may be x.
/// Errors  device_error for a stream of a card in a build without CUDA.
void bias_gelu(const stream& s, const float* x, const float* b, float* y, float* slope, std::size_t rows,
               std::size_t columns);

/// dz = slope * dy, and db, its sum over rows.
///
/// Shapes  as bias_gelu; dz may be dy.
/// Errors  as bias_gelu.
void bias_gelu_gradient(const stream& s, const float* slope, const float* dy, float* dz, float* db,
                        std::size_t rows, std::size_t columns);

} // namespace mailgrad
