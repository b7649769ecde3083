#pragma once

#include <mailgrad/tensor/device.hpp>
#include <mailgrad/tensor/stream.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace mailgrad {

/// Copies row rows[i] of the table to row i of the result.
///
/// Shapes  table: float32[table rows, width]; result: float32[rows.size(), width], apart from the table.
/// Errors  shape_error for a table that is not made of whole rows; std::out_of_range for a row that the table
///         lacks. On a card such a row is noted in the lane's words instead, and shape_error is thrown for
///         rows of 2^31 elements or more; device_error for a card in a build without CUDA.
void gather(const stream& s, std::span<const float> table, std::size_t width,
            std::span<const std::int32_t> rows, float* result);

/// Bytes of scratch memory that scatter_rows() needs for so many rows.
std::size_t scatter_scratch_bytes(device_kind where, std::size_t rows) noexcept;

/// Zeroes a table, then adds row i of `values` to its row rows[i]. A row may occur more than once; on a card,
/// too, its values are added in a fixed order. A negative row number ends the list.
///
/// Shapes  values: float32[rows.size(), width]; table: float32[table rows, width], overwritten; scratch:
///         scatter_scratch_bytes(), 64-byte aligned.
/// Errors  as gather; on a card shape_error for 2^31 rows or more.
void scatter_rows(const stream& s, std::span<const std::int32_t> rows, const float* values, std::size_t width,
                  std::span<float> table, void* scratch = nullptr);

} // namespace mailgrad

namespace mailgrad::cuda {

/// Bytes in which a card puts a list of so many rows in order: twice a row and a position for each.
constexpr std::size_t row_order_bytes(std::size_t rows) { return 2 * rows * sizeof(std::uint64_t); }

/// gather() on a stream of a card. A row that the table lacks is noted in the lane's words, and its place in
/// the result is zeroed.
///
/// Errors  shape_error for rows of 2^31 elements or more.
void gather(const cuda_stream& s, std::span<const float> table, std::size_t width,
            std::span<const std::int32_t> rows, float* result);

/// scatter_rows() on a stream of a card. A row that the table lacks is noted in the lane's words, and left
/// out.
///
/// Errors  shape_error for a list of 2^31 rows or more.
void scatter_rows(const cuda_stream& s, std::span<const std::int32_t> rows, const float* values,
                  std::size_t width, std::span<float> table, void* scratch);

} // namespace mailgrad::cuda
