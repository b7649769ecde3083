#pragma once

#include <mailgrad/tensor/stream.hpp>

#include <cstddef>
#include <cstdint>

namespace mailgrad {

/// The mean over rows of -log(softmax(logits)[label]), and the softmax itself, which the gradient needs.
///
/// Shapes  logits, probabilities: float32[rows, columns], may be the same memory; labels: int32[rows];
///         loss: float32[1], NaN if there are no rows.
/// Errors  std::out_of_range for a label outside of [0, columns); device_error for a stream of a card in a
///         build without CUDA.
void cross_entropy(const stream& s, const float* logits, const std::int32_t* labels, float* loss,
                   float* probabilities, std::size_t rows, std::size_t columns);

/// The gradient with respect to the logits: (probabilities - 1 at the label) * dloss / rows.
///
/// Shapes  probabilities, d_logits: float32[rows, columns], may be the same memory; d_loss: float32[1].
/// Errors  device_error for a stream of a card in a build without CUDA.
void cross_entropy_gradient(const stream& s, const float* probabilities, const std::int32_t* labels,
                            const float* d_loss, float* d_logits, std::size_t rows, std::size_t columns);

} // namespace mailgrad
