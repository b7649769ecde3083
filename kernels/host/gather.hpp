#pragma once

#include <mailgrad/kernels/gather.hpp>

namespace mailgrad::host {

// kernels/gather.hpp on the calling thread. The table consists of whole rows.

void gather(std::span<const float> table, std::size_t width, std::span<const std::int32_t> rows,
            float* result);
void scatter_rows(std::span<const std::int32_t> rows, const float* values, std::size_t width,
                  std::span<float> table);

} // namespace mailgrad::host
