#pragma once

#include <mailgrad/kernels/copy_rows.hpp>

namespace mailgrad::cuda {

/// copy_rows() on a stream of a card.
///
/// Errors  shape_error for rows of 2^31 floats or more.
void copy_rows(const cuda_stream& s, std::span<const row_copy> copies);

} // namespace mailgrad::cuda
