#pragma once

#include <mailgrad/tensor/stream.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace mailgrad {

/// A table of rows. All tables of one call have the same width.
struct row_table {
  const float* values;
  std::size_t height; ///< rows
};

/// Copies, for each sample, one row of every table into the result, side by side.
///
/// Shapes  rows: int32[samples, tables]: column j holds rows of table j; result: float32[samples, tables,
///         width].
/// Errors  shape_error if there is not a row of every table for each sample; std::out_of_range for a row that
///         its table lacks. On a card such a row is noted in the lane's words instead; device_error for a
///         card in a build without CUDA.
void gather_tables(const stream& s, std::span<const row_table> tables, std::size_t width,
                   std::span<const std::int32_t> rows, float* result);

/// The gradient of one table: the rows that were read, and the values that are added to each.
struct table_gradient {
  std::int32_t* rows;
  float* values;
};

/// Splits the gradient with respect to the result of gather_tables() by table.
///
/// Shapes  gradient: float32[samples, tables, width]; of each part rows: int32[samples], values:
///         float32[samples, width].
/// Errors  shape_error and device_error as gather_tables.
void gather_tables_gradient(const stream& s, std::span<const std::int32_t> rows, const float* gradient,
                            std::size_t width, std::span<const table_gradient> parts);

} // namespace mailgrad

namespace mailgrad::cuda {

/// gather_tables() on a stream of a card. A row that its table lacks is noted in the lane's words, and its
/// place in the result is zeroed.
void gather_tables(const cuda_stream& s, std::span<const row_table> tables, std::size_t width,
                   std::span<const std::int32_t> rows, float* result);
void gather_tables_gradient(const cuda_stream& s, std::span<const std::int32_t> rows, const float* gradient,
                            std::size_t width, std::span<const table_gradient> parts);

} // namespace mailgrad::cuda
