#pragma once

#include <mailgrad/tensor/numbers.hpp>
#include <mailgrad/tensor/stream.hpp>

#include <cstddef>

namespace mailgrad::cuda {

/// y = scale * the sum over the rows of x, in one launch. It is the second stage of sums that come in parts,
/// so x may lie in the stream's scratch memory.
///
/// Shapes  x: float32[rows, columns]; y: float32[columns], apart from x.
void sum_columns(const cuda_stream& s, const char* name, const float* x, std::size_t rows,
                 std::size_t columns, float scale, float* y);

/// An axis that is summed, and the product of the extents on each side of it.
struct middle_axis {
  std::size_t outer = 1, terms = 0, inner = 1;
};

/// y = scale * the sum over the middle axis of x, in two stages where there are few results.
///
/// Shapes  x: float32[outer, terms, inner], or bfloat16; y: float32[outer, inner]. Neither lies in the
///         stream's scratch memory.
void sum_middle(const cuda_stream& s, const char* name, read_numbers x, const middle_axis& axis, float scale,
                float* y);

} // namespace mailgrad::cuda
