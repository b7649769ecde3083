#pragma once

#include <mailgrad/graph/value.hpp>

#include <source_location>

namespace mailgrad {

/// Looks up rows of a table: an embedding. Its gradient with respect to the table names the rows that were
/// read, and leaves the others alone.
///
/// Shapes  table: float32[rows, width]; indices: int32 of any rank, each in [0, rows); the result has the
///         extents of `indices` and then `width`.
/// Errors  graph_error for other ranks and types. A run throws std::out_of_range for a row that is not there.
value gather(const value& table, const value& indices,
             std::source_location where = std::source_location::current());

/// A table of zeros to which row i of `values` is added at rows[i]. A row may come twice; a negative row
/// number ends the list.
///
/// Shapes  rows: int32[n]; values: float32[n, width]; dims: {table rows, width}.
/// Errors  as gather.
value scatter_rows(const value& rows, const value& values, const shape& dims,
                   std::source_location where = std::source_location::current());

} // namespace mailgrad
