#pragma once

#include <mailgrad/tensor/stream.hpp>

#include <cstddef>

namespace mailgrad {

/// The sizes of the operand: samples of `count` vectors, each with `width` numbers.
struct vector_sets {
  std::size_t samples;
  std::size_t count;
  std::size_t width;

  std::size_t pairs() const noexcept { return count * (count - (count > 0 ? 1 : 0)) / 2; }
};

/// The dot products of all pairs of vectors in a sample, in the order (1,0), (2,0), (2,1), (3,0), ...
///
/// Shapes  x: float32[samples, count, width]; dots: float32[samples, pairs].
/// Errors  device_error for a stream of a card in a build without CUDA.
void pairwise_dots(const stream& s, const vector_sets& sets, const float* x, float* dots);

/// The gradient with respect to x, from ddots, the gradient with respect to the dot products.
///
/// Shapes  dx: as x.
/// Errors  as pairwise_dots.
void pairwise_dots_gradient(const stream& s, const vector_sets& sets, const float* x, const float* ddots,
                            float* dx);

} // namespace mailgrad

namespace mailgrad::cuda {

// The same on a card.

void pairwise_dots(const cuda_stream& s, const vector_sets& sets, const float* x, float* dots);
void pairwise_dots_gradient(const cuda_stream& s, const vector_sets& sets, const float* x, const float* ddots,
                            float* dx);

} // namespace mailgrad::cuda
