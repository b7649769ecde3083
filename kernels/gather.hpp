#pragma once

#include <mailgrad/tensor/device.hpp>
#include <mailgrad/tensor/stream.hpp>

#include <span>

namespace mailgrad::cuda {

/// Bytes in which a GPU puts a list of so many rows in order: twice a row and a position for each.
constexpr std::size_t row_order_bytes(std::size_t rows) { return 2 * rows * sizeof(std::uint64_t); }

} // namespace mailgrad::cuda

namespace mailgrad {

/// Copies row rows[i] of the table to row i of the result.
///
/// Shapes  table: float32[table rows, width]; result: float32[rows.size(), width], apart from the table.
/// Errors  shape_error for a table that is not made of whole rows; std::out_of_range for a row that the table
///         lacks. On a GPU such a row is noted in the stream's status instead, and its place in the result is
///         zeroed; shape_error is thrown there for rows of 2^31 elements or more.
void gather(const stream& s, std::span<const float> table, std::size_t width,
            std::span<const std::int32_t> rows, float* result);

/// Bytes of scratch memory that scatter_rows() needs for so many rows.
std::size_t scatter_scratch_bytes(device_kind where, std::size_t rows) noexcept;

/// Zeroes a table, then adds row i of `values` to its row rows[i]. A row may occur more than once; on a GPU,
/// too, its values are added in a fixed order. A negative row number ends the list.
///
/// Shapes  values: float32[rows.size(), width]; table: float32[table rows, width], overwritten; scratch:
///         scatter_scratch_bytes(), 64-byte aligned.
/// Errors  as gather, but that a row which the table lacks is left out on a GPU, and shape_error is thrown
///         there for 2^31 rows or more.
void scatter_rows(const stream& s, std::span<const std::int32_t> rows, const float* values, std::size_t width,
                  std::span<float> table, void* scratch = nullptr);

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
///         its table lacks. On a GPU such a row is noted in the stream's status instead, and its place is
///         zeroed.
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
/// Errors  shape_error as gather_tables.
void gather_tables_gradient(const stream& s, std::span<const std::int32_t> rows, const float* gradient,
                            std::size_t width, std::span<const table_gradient> parts);

/// Rows that are mostly zero: row i is the entries offsets[i] to offsets[i + 1]. Entries behind those of the
/// last row are not read.
struct compressed_rows {
  std::span<const std::int32_t> columns;
  const float* values; ///< as many as `columns`
  std::span<const std::int32_t> offsets;

  std::size_t rows() const noexcept { return offsets.size() - 1; }
};

/// y = x * table.
///
/// Shapes  table: float32[columns of x, width]; y: float32[x.rows(), width].
/// Errors  shape_error without offsets; std::out_of_range for a column that the table lacks or an offset
///         behind the entries. On a GPU such a fault is noted in the stream's status instead, and left out.
void sparse_product(const stream& s, const compressed_rows& x, std::span<const float> table,
                    std::size_t width, float* y);

/// The gradient with respect to the rows of the table that x.columns lists: entry j, which belongs to row i
/// of x, gives values[j] * dy[i] for row columns[j].
///
/// Shapes  rows: float32[x.columns.size(), width]; rows behind the last entry are not written.
/// Errors  as sparse_product.
void sparse_product_gradient(const stream& s, const compressed_rows& x, const float* dy, std::size_t width,
                             float* rows);

} // namespace mailgrad
