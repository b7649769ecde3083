#pragma once

#include <mailgrad/graph/value.hpp>
#include <mailgrad/kernels/gemm.hpp>

#include <source_location>

namespace mailgrad {

/// Which operands of a product are read transposed, in their last two axes, without a transpose in memory.
struct matmul_options {
  operand_order a = operand_order::as_is;
  operand_order b = operand_order::as_is;
};

/// The matrix product, for each matrix of a batch.
///
/// Shapes  a: float32[..., m, k], b: float32[..., k, n], the leading axes equal; result: float32[..., m, n].
///         If a is not transposed, b may be one matrix, float32[k, n], by which every row of a is multiplied.
///         The last two axes of a transposed operand are given in the other order.
/// Errors  graph_error if the inner extents or the leading axes differ, or a rank is below 2.
value matmul(const value& a, const value& b, std::source_location where = std::source_location::current());
value matmul(const value& a, const value& b, const matmul_options& options,
             std::source_location where = std::source_location::current());

} // namespace mailgrad
