#pragma once

#include <mailgrad/kernels/gather_tables.hpp>

namespace mailgrad::cuda {

/// gather_tables() on a stream of a card. A row that its table lacks is noted in the lane's words, and its
/// place in the result is zeroed.
void gather_tables(const cuda_stream& s, std::span<const row_table> tables, std::size_t width,
                   std::span<const std::int32_t> rows, float* result);
void gather_tables_gradient(const cuda_stream& s, std::span<const std::int32_t> rows, const float* gradient,
                            std::size_t width, std::span<const table_gradient> parts);

} // namespace mailgrad::cuda
