#include <mailgrad/kernels/cuda/copy_rows.hpp>
#include <mailgrad/kernels/cuda/gather.hpp>
#include <mailgrad/kernels/cuda/gather_tables.hpp>
#include <mailgrad/kernels/cuda/pairwise_dots.hpp>
#include <mailgrad/kernels/cuda/scatter_rows.hpp>
#include <mailgrad/kernels/cuda/sparse_product.hpp>

#include <mailgrad/tensor/require_host.hpp>

namespace mailgrad::cuda {

void copy_rows(const cuda_stream& s, std::span<const row_copy>) { refuse_card(s, "copy_rows"); }

void gather(const cuda_stream& s, std::span<const float>, std::size_t, std::span<const std::int32_t>,
            float*) {
  refuse_card(s, "gather");
}

void scatter_rows(const cuda_stream& s, std::span<const std::int32_t>, const float*, std::size_t,
                  std::span<float>, void*) {
  refuse_card(s, "scatter_rows");
}

void gather_tables(const cuda_stream& s, std::span<const row_table>, std::size_t,
                   std::span<const std::int32_t>, float*) {
  refuse_card(s, "gather_tables");
}

void gather_tables_gradient(const cuda_stream& s, std::span<const std::int32_t>, const float*, std::size_t,
                            std::span<const table_gradient>) {
  refuse_card(s, "gather_tables_gradient");
}

void pairwise_dots(const cuda_stream& s, const vector_sets&, const float*, float*) {
  refuse_card(s, "pairwise_dots");
}

void pairwise_dots_gradient(const cuda_stream& s, const vector_sets&, const float*, const float*, float*) {
  refuse_card(s, "pairwise_dots_gradient");
}

void sparse_product(const cuda_stream& s, const compressed_rows&, std::span<const float>, std::size_t,
                    float*) {
  refuse_card(s, "sparse_product");
}

void sparse_product_gradient(const cuda_stream& s, const compressed_rows&, const float*, std::size_t,
                             float*) {
  refuse_card(s, "sparse_product_gradient");
}

} // namespace mailgrad::cuda
