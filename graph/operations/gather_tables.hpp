#pragma once

#include <mailgrad/graph/value.hpp>

#include <source_location>
#include <span>

namespace mailgrad {

/// For each sample a row of every table, side by side: the embeddings of samples of several categories. As
/// gather, its gradient with respect to a table names the rows that were read, and leaves the others alone.
///
/// Shapes  tables: k of float32[rows, width], of any numbers of rows; indices: int32[samples, k], column j
///         below the rows of table j; the result: float32[samples, k, width].
/// Errors  graph_error for other ranks and types, tables of different widths or none. A run throws
///         std::out_of_range for a row that is not there.
value gather_tables(std::span<const value> tables, const value& indices,
                    std::source_location where = std::source_location::current());

} // namespace mailgrad
