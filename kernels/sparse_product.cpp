#include <mailgrad/kernels/sparse_product.hpp>

#include <mailgrad/kernels/cuda/sparse_product.hpp>
#include <mailgrad/kernels/host/product/sparse_product.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

namespace mailgrad {

namespace {

void require_offsets(const char* kernel, const compressed_rows& x) {
  if (x.offsets.empty())
    throw shape_error(fmt::format("{}: there are no offsets, not even of no rows", kernel));
}

} // namespace

void sparse_product(const stream& s, const compressed_rows& x, std::span<const float> table,
                    std::size_t width, float* y) {
  require_offsets("sparse_product", x);
  if (const auto* card = std::get_if<cuda_stream>(&s)) return cuda::sparse_product(*card, x, table, width, y);
  host::sparse_product(x, table, width, y);
}

void sparse_product_gradient(const stream& s, const compressed_rows& x, const float* dy, std::size_t width,
                             float* rows) {
  require_offsets("sparse_product_gradient", x);
  if (const auto* card = std::get_if<cuda_stream>(&s))
    return cuda::sparse_product_gradient(*card, x, dy, width, rows);
  host::sparse_product_gradient(x, dy, width, rows);
}

} // namespace mailgrad
