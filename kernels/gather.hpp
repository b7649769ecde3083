#pragma once

#include <mailgrad/tensor/stream.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace mailgrad {

/// Row i of the result is row rows[i] of the table.
///
/// Shapes  table: float32[table rows, width]; result: float32[rows.size(), width], apart from the table.
/// Errors  shape_error for a table that is not made of whole rows; std::out_of_range if there is no such row;
///         device_error for a stream of a GPU.
void gather(const stream& s, std::span<const float> table, std::size_t width,
            std::span<const std::int32_t> rows, float* result);

/// Adds row i of `values` to row rows[i] of a table that starts as zero. A row may come twice; a negative row
/// number ends the list.
///
/// Shapes  values: float32[rows.size(), width]; table: float32[table rows, width], overwritten.
/// Errors  as gather.
void scatter_rows(const stream& s, std::span<const std::int32_t> rows, const float* values, std::size_t width,
                  std::span<float> table);

} // namespace mailgrad
