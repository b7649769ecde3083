#pragma once

#include <mailgrad/kernels/gather_tables.hpp>

namespace mailgrad::host {

// kernels/gather_tables.hpp on the calling thread.

void gather_tables(std::span<const row_table> tables, std::size_t width, std::span<const std::int32_t> rows,
                   float* result);
void gather_tables_gradient(std::span<const std::int32_t> rows, const float* gradient, std::size_t width,
                            std::span<const table_gradient> parts);

} // namespace mailgrad::host
