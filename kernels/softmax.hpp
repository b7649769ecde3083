#pragma once

#include <mailgrad/tensor/stream.hpp>

namespace mailgrad {

/// y = exp(x) / sum of exp(x), for each row. The row's largest element is subtracted from x first, so that
/// nothing overflows.
///
/// Shapes  x, y: float32[rows, columns]; y may be x.
void softmax(const stream& s, const float* x, float* y, std::size_t rows, std::size_t columns);

/// dx = y * (dy - sum of y * dy), for each row, where y is the result of softmax().
///
/// Shapes  y, dy, dx: float32[rows, columns]; dx may be dy or y.
void softmax_gradient(const stream& s, const float* y, const float* dy, float* dx, std::size_t rows,
                      std::size_t columns);

/// The mean over rows of -log(softmax(logits)[label]), and the softmax itself, which the gradient needs.
///
/// Shapes  logits, probabilities: float32[rows, columns], may be the same memory; labels: int32[rows];
///         loss: float32[1], NaN if there are no rows.
/// Errors  std::out_of_range for a label outside of [0, columns). On a GPU such a label is noted in the
///         stream's status instead, and its row adds nothing to the loss.
void cross_entropy(const stream& s, const float* logits, const std::int32_t* labels, float* loss,
                   float* probabilities, std::size_t rows, std::size_t columns);

/// The gradient with respect to the logits: (probabilities - 1 at the label) * dloss / rows.
///
/// Shapes  probabilities, d_logits: float32[rows, columns], may be the same memory; d_loss: float32[1].
void cross_entropy_gradient(const stream& s, const float* probabilities, const std::int32_t* labels,
                            const float* d_loss, float* d_logits, std::size_t rows, std::size_t columns);

/// Counts the rows whose largest logit, the first of equals, is that of their label.
///
/// Shapes  logits: float32[rows, columns], columns > 0; labels: int32[rows]; right: int32[1], in memory of
///         the stream; fewer than 2^31 rows.
/// Errors  none for a label that is no class, which is never right.
void count_right_labels(const stream& s, const float* logits, const std::int32_t* labels, std::int32_t* right,
                        std::size_t rows, std::size_t columns);

} // namespace mailgrad
