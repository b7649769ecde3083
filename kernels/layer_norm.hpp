#pragma once

#include <mailgrad/tensor/small_floats.hpp>
#include <mailgrad/tensor/stream.hpp>

namespace mailgrad {

/// The rows that are normalised, each by itself.
struct layer_norm_rows {
  std::size_t rows = 0, width = 0;
  float epsilon = 1e-5F; ///< added to the variance
};

/// Brings each row to mean 0 and variance 1, then scales and shifts it: y = (x - mean) * inverse * gamma +
/// beta, where inverse is 1 / sqrt(variance + epsilon).
///
/// Source  Ba, Kiros & Hinton, "Layer Normalization", 2016, arXiv:1607.06450, equation 4.
/// Shapes  x, y: float32[rows, width], on a GPU y may be bfloat16; gamma, beta: [width]; mean, inverse:
///         [rows].
void layer_norm(const stream& s, const layer_norm_rows& r, const float* x, const float* gamma,
                const float* beta, written_numbers y, float* mean, float* inverse);

/// Computes the gradients with respect to x, gamma and beta from dy, the gradient with respect to y.
///
/// Shapes  as layer_norm, with dy as y; dgamma, dbeta: [width].
void layer_norm_gradient(const stream& s, const layer_norm_rows& r, const float* x, const float* gamma,
                         const float* mean, const float* inverse, read_numbers dy, float* dx, float* dgamma,
                         float* dbeta);

} // namespace mailgrad
