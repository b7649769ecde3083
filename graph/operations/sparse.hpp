#pragma once

#include <mailgrad/graph/value.hpp>

#include <source_location>

namespace mailgrad {

/// The product of rows that are mostly zero with a table. Only rows of the table that entries name are read.
/// The gradient with respect to the table is the list of these rows. The entries have no gradient.
///
/// Shapes  columns: int32[entries] and values: float32[entries], columns padded with -1; offsets:
///         int32[n + 1], row i is the entries offsets[i] to offsets[i + 1]; table: float32[columns of a row,
///         width]; result: float32[n, width].
/// Errors  graph_error for other shapes. A run throws std::out_of_range for a column that the table lacks.
value sparse_matmul(const value& columns, const value& values, const value& offsets, const value& table,
                    std::source_location where = std::source_location::current());

} // namespace mailgrad
