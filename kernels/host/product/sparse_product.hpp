#pragma once

#include <mailgrad/kernels/sparse_product.hpp>

namespace mailgrad::host {

// kernels/sparse_product.hpp on the calling thread. There are offsets.

void sparse_product(const compressed_rows& x, std::span<const float> table, std::size_t width, float* y);
void sparse_product_gradient(const compressed_rows& x, const float* dy, std::size_t width, float* rows);

} // namespace mailgrad::host
