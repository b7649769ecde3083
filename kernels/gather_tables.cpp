#include <mailgrad/kernels/gather_tables.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace mailgrad::host {

// On the calling thread.

namespace {

/// Rows are prefetched this many samples ahead, because they lie scattered in tables larger than the caches.
constexpr std::size_t ahead = 4;
constexpr std::size_t floats_in_line = 16;

void prefetch_row(const float* row, std::size_t width) {
  for (std::size_t i = 0; i < width; i += floats_in_line) __builtin_prefetch(row + i);
}

/// A negative row becomes a large unsigned number, so that one comparison is enough.
bool holds(const row_table& table, std::int32_t row) {
  return static_cast<std::uint32_t>(row) < table.height;
}

const float* address(const row_table& table, std::int32_t row, std::size_t width) {
  if (holds(table, row)) return table.values + static_cast<std::size_t>(row) * width;
  throw std::out_of_range(fmt::format("row {} of a table of {} rows", row, table.height));
}

} // namespace

void gather_tables(std::span<const row_table> tables, std::size_t width, std::span<const std::int32_t> rows,
                   float* result) {
  const std::size_t step = tables.size();
  for (std::size_t i = 0; i < rows.size(); i += step)
    for (std::size_t j = 0; j < step; ++j) {
      if (const std::size_t later = i + ahead * step + j;
          later < rows.size() && holds(tables[j], rows[later]))
        prefetch_row(tables[j].values + static_cast<std::size_t>(rows[later]) * width, width);
      result = std::copy_n(address(tables[j], rows[i + j], width), width, result);
    }
}

void gather_tables_gradient(std::span<const std::int32_t> rows, const float* gradient, std::size_t width,
                            std::span<const table_gradient> parts) {
  const std::size_t samples = rows.size() / std::max<std::size_t>(1, parts.size());
  for (std::size_t i = 0; i < samples; ++i)
    for (std::size_t j = 0; j < parts.size(); ++j, gradient += width) {
      parts[j].rows[i] = rows[i * parts.size() + j];
      std::copy_n(gradient, width, parts[j].values + i * width);
    }
}

} // namespace mailgrad::host

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
