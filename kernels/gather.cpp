#include <mailgrad/kernels/gather.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace mailgrad::host {

// On the calling thread. The table consists of whole rows.

namespace {

/// Returns the offset of a row in its table. A negative row becomes a large unsigned number, so that the same
/// comparison finds it.
std::size_t offset_of(std::int32_t row, std::size_t width, std::size_t table_size) {
  const auto offset = static_cast<std::size_t>(static_cast<std::uint32_t>(row)) * width;
  if (offset + width > table_size || width > table_size)
    throw std::out_of_range(
        fmt::format("row {} of a table of {} rows", row, table_size / std::max<std::size_t>(1, width)));
  return offset;
}

} // namespace

void gather(std::span<const float> table, std::size_t width, std::span<const std::int32_t> rows,
            float* result) {
  for (const std::int32_t row : rows)
    result = std::copy_n(table.data() + offset_of(row, width, table.size()), width, result);
}

void scatter_rows(std::span<const std::int32_t> rows, const float* values, std::size_t width,
                  std::span<float> table) {
  std::ranges::fill(table, 0.0F);
  for (const std::int32_t row : rows) {
    if (row < 0) return;
    float* to = table.data() + offset_of(row, width, table.size());
#pragma omp simd
    for (std::size_t c = 0; c < width; ++c) to[c] += values[c];
    values += width;
  }
}

} // namespace mailgrad::host

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
