#pragma once

#include <mailgrad/kernels/sparse_product.hpp>

namespace mailgrad::cuda {

/// sparse_product() on a stream of a card. A column that the table lacks, or a row whose entries are not
/// there, is noted in the lane's words, and left out.
void sparse_product(const cuda_stream& s, const compressed_rows& x, std::span<const float> table,
                    std::size_t width, float* y);
void sparse_product_gradient(const cuda_stream& s, const compressed_rows& x, const float* dy,
                             std::size_t width, float* rows);

} // namespace mailgrad::cuda
