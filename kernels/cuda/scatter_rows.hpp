#pragma once

#include <mailgrad/kernels/gather.hpp>

namespace mailgrad::cuda {

/// scatter_rows() on a stream of a card. A row that the table lacks is noted in the lane's words, and left
/// out.
///
/// Errors  shape_error for a list of 2^31 rows or more.
void scatter_rows(const cuda_stream& s, std::span<const std::int32_t> rows, const float* values,
                  std::size_t width, std::span<float> table, void* scratch);

} // namespace mailgrad::cuda
