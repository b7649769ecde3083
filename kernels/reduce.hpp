#pragma once

#include <mailgrad/tensor/shape.hpp>
#include <mailgrad/tensor/small_floats.hpp>
#include <mailgrad/tensor/stream.hpp>

namespace mailgrad {

/// The axes of a value in the order in which a sum walks them. Neighbouring axes that are both summed, or
/// both kept, are joined.
struct sum_plan {
  std::array<std::size_t, shape::max_rank> extents{};
  std::array<std::size_t, shape::max_rank> steps{}; ///< strides in the result; 0 along a summed axis
  std::size_t rank = 0;                             ///< at least 1
  std::size_t result_size = 1;
};

/// Plans a sum over those axes of `dims` for which `summed` is true.
sum_plan plan_sum(const shape& dims, const std::array<bool, shape::max_rank>& summed);

/// Whether what is added up are whole rows of a matrix, as for the gradient of a bias.
bool sums_rows(const sum_plan& plan);

/// y = scale * the sum of x over the planned axes; the sum of nothing is 0.
///
/// Shapes  x may be bfloat16 on a GPU if sums_rows(plan); y: float32[plan.result_size], apart from x.
void sum(const stream& s, const sum_plan& plan, read_numbers x, float scale, float* y);

/// The mean of (a - b)^2 over n elements.
void mean_squared_difference(const stream& s, const float* a, const float* b, std::size_t n, float* y);

} // namespace mailgrad

namespace mailgrad::cuda {

// What sums of a GPU end with, also those of other kernels.

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
