#include <mailgrad/kernels/gather.hpp>

#include <mailgrad/kernels/cuda/gather.hpp>
#include <mailgrad/kernels/cuda/row_order.hpp>
#include <mailgrad/kernels/cuda/scatter_rows.hpp>
#include <mailgrad/kernels/host/gather.hpp>
#include <mailgrad/tensor/error.hpp>

namespace mailgrad {

namespace {

/// Checks that the table consists of whole rows, so that the offset of a row cannot overflow.
void require_whole_rows(const char* kernel, std::size_t table_size, std::size_t width) {
  if (width == 0 ? table_size > 0 : table_size % width != 0)
    throw shape_error(kernel, shape{table_size}, shape{width});
}

} // namespace

void gather(const stream& s, std::span<const float> table, std::size_t width,
            std::span<const std::int32_t> rows, float* result) {
  require_whole_rows("gather", table.size(), width);
  if (const auto* card = std::get_if<cuda_stream>(&s)) return cuda::gather(*card, table, width, rows, result);
  host::gather(table, width, rows, result);
}

std::size_t scatter_scratch_bytes(device_kind where, std::size_t rows) noexcept {
  return where == device_kind::cpu ? 0 : cuda::row_order_bytes(rows);
}

void scatter_rows(const stream& s, std::span<const std::int32_t> rows, const float* values, std::size_t width,
                  std::span<float> table, void* scratch) {
  require_whole_rows("scatter_rows", table.size(), width);
  if (const auto* card = std::get_if<cuda_stream>(&s))
    return cuda::scatter_rows(*card, rows, values, width, table, scratch);
  host::scatter_rows(rows, values, width, table);
}

} // namespace mailgrad
