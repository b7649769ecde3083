#include <mailgrad/kernels/gather_tables.hpp>

#include <mailgrad/kernels/cuda/gather_tables.hpp>
#include <mailgrad/kernels/host/gather_tables.hpp>
#include <mailgrad/tensor/error.hpp>

namespace mailgrad {

namespace {

void require_whole_samples(const char* kernel, std::size_t rows, std::size_t tables) {
  if (tables == 0 ? rows > 0 : rows % tables != 0) throw shape_error(kernel, shape{rows}, shape{tables});
}

} // namespace

void gather_tables(const stream& s, std::span<const row_table> tables, std::size_t width,
                   std::span<const std::int32_t> rows, float* result) {
  require_whole_samples("gather_tables", rows.size(), tables.size());
  if (const auto* card = std::get_if<cuda_stream>(&s))
    return cuda::gather_tables(*card, tables, width, rows, result);
  host::gather_tables(tables, width, rows, result);
}

void gather_tables_gradient(const stream& s, std::span<const std::int32_t> rows, const float* gradient,
                            std::size_t width, std::span<const table_gradient> parts) {
  require_whole_samples("gather_tables_gradient", rows.size(), parts.size());
  if (const auto* card = std::get_if<cuda_stream>(&s))
    return cuda::gather_tables_gradient(*card, rows, gradient, width, parts);
  host::gather_tables_gradient(rows, gradient, width, parts);
}

} // namespace mailgrad
