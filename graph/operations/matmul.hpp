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

/// The dot products of all pairs of vectors in a sample, in the order (1,0), (2,0), (2,1), (3,0), ... A
/// factorisation machine combines features in this way.
///
/// Source  Rendle, "Factorization Machines", ICDM 2010; as a layer, Naumov et al. 2019, arXiv:1906.00091.
/// Shapes  x: float32[samples, count, width]; the result: float32[samples, count * (count - 1) / 2].
/// Errors  graph_error for other ranks and types, or fewer than two vectors.
value pairwise_dots(const value& x, std::source_location where = std::source_location::current());

} // namespace mailgrad
