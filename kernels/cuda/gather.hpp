#pragma once

#include <mailgrad/kernels/gather.hpp>

namespace mailgrad::cuda {

/// gather() on a stream of a card. A row that the table lacks is noted in the lane's words, and its place in
/// the result is zeroed.
///
/// Errors  shape_error for rows of 2^31 elements or more.
void gather(const cuda_stream& s, std::span<const float> table, std::size_t width,
            std::span<const std::int32_t> rows, float* result);

} // namespace mailgrad::cuda
