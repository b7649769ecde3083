#pragma once

#include <mailgrad/tensor/stream.hpp>

#include <cstddef>

namespace mailgrad {

/// y = exp(x) / sum of exp(x), for each row. The row's largest element is subtracted from x first, so that
/// nothing overflows.
///
/// Shapes  x, y: float32[rows, columns]; y may be x.
/// Errors  device_error for a stream of a card in a build without CUDA.
void softmax(const stream& s, const float* x, float* y, std::size_t rows, std::size_t columns);

/// dx = y * (dy - sum of y * dy), for each row, where y is the result of softmax().
///
/// Shapes  y, dy, dx: float32[rows, columns]; dx may be dy or y.
/// Errors  device_error for a stream of a card in a build without CUDA.
void softmax_gradient(const stream& s, const float* y, const float* dy, float* dx, std::size_t rows,
                      std::size_t columns);

} // namespace mailgrad

namespace mailgrad::cuda {

// The same on a card.

void softmax(const cuda_stream& s, const float* x, float* y, std::size_t rows, std::size_t columns);
void softmax_gradient(const cuda_stream& s, const float* y, const float* dy, float* dx, std::size_t rows,
                      std::size_t columns);

} // namespace mailgrad::cuda
