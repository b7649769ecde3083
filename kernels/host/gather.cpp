#include <mailgrad/kernels/host/gather.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace mailgrad::host {

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
