#pragma once

#include <mailgrad/graph/value.hpp>

#include <source_location>
#include <span>

namespace mailgrad {

/// Looks up rows of a table, as an embedding does. Its gradient with respect to the table is the list of rows
/// that were read.
///
/// Shapes  table: float32[rows, width]; indices: int32 of any rank, each in [0, rows); the result has the
///         extents of `indices` and then `width`.
/// Errors  graph_error for other ranks and types. A run throws std::out_of_range for a row that the table
///         lacks.
value gather(const value& table, const value& indices,
             std::source_location where = std::source_location::current());

/// Makes a table of zeros and adds row i of `values` to its row rows[i]. A row may occur more than once. A
/// negative row number ends the list.
///
/// Shapes  rows: int32[n]; values: float32[n, width]; dims: {table rows, width}.
/// Errors  as gather.
value scatter_rows(const value& rows, const value& values, const shape& dims,
                   std::source_location where = std::source_location::current());

/// Looks up one row of every table for each sample, side by side: the embeddings of samples of several
/// categories. Its gradient with respect to a table is the list of rows that were read, as for gather().
///
/// Shapes  tables: k of float32[rows, width], which may have different numbers of rows; indices:
///         int32[samples, k], where column j holds rows of table j; the result: float32[samples, k, width].
/// Errors  graph_error for other ranks and types, tables of different widths, or no tables. A run throws
///         std::out_of_range for a row that its table lacks.
value gather_tables(std::span<const value> tables, const value& indices,
                    std::source_location where = std::source_location::current());

} // namespace mailgrad
