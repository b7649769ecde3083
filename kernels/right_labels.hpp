#pragma once

#include <mailgrad/tensor/stream.hpp>

#include <cstddef>
#include <cstdint>

namespace mailgrad {

/// Counts the rows whose largest logit, the first of equals, is that of their label.
///
/// Shapes  logits: float32[rows, columns], columns > 0; labels: int32[rows]; right: int32[1], in memory of
///         the stream; fewer than 2^31 rows.
/// Errors  device_error for a stream of a card in a build without CUDA. A label that is no class is never
///         right.
void count_right_labels(const stream& s, const float* logits, const std::int32_t* labels, std::int32_t* right,
                        std::size_t rows, std::size_t columns);

} // namespace mailgrad
