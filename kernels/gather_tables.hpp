#pragma once

#include <mailgrad/tensor/stream.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace mailgrad {

/// A table of rows, of a width that all tables of one call share.
struct row_table {
  const float* values;
  std::size_t height; ///< rows
};

/// For each sample a row of every table, side by side.
///
/// Shapes  rows: int32[samples, tables]: column j holds rows of table j; result: float32[samples, tables,
///         width].
/// Errors  shape_error if there is not a row of every table for each sample; std::out_of_range for a row that
///         is not there; device_error for a stream of a GPU.
void gather_tables(const stream& s, std::span<const row_table> tables, std::size_t width,
                   std::span<const std::int32_t> rows, float* result);

/// The gradient of one of the tables: rows that were read, and what each adds.
struct table_gradient {
  std::int32_t* rows;
  float* values;
};

/// Takes the gradient of what gather_tables gave apart, by table.
///
/// Shapes  gradient: float32[samples, tables, width]; of each part rows: int32[samples], values:
///         float32[samples, width].
/// Errors  shape_error as gather_tables; device_error for a stream of a GPU.
void gather_tables_gradient(const stream& s, std::span<const std::int32_t> rows, const float* gradient,
                            std::size_t width, std::span<const table_gradient> parts);

} // namespace mailgrad
