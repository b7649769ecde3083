#include <mailgrad/kernels/gather.hpp>
#include <mailgrad/kernels/gpu_body.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace mailgrad {
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

/// Checks that the table consists of whole rows, so that the offset of a row cannot overflow.
void require_whole_rows(const char* kernel, std::size_t table_size, std::size_t width) {
  if (width == 0 ? table_size > 0 : table_size % width != 0)
    throw shape_error(kernel, shape{table_size}, shape{width});
}

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

void require_whole_samples(const char* kernel, std::size_t rows, std::size_t tables) {
  if (tables == 0 ? rows > 0 : rows % tables != 0) throw shape_error(kernel, shape{rows}, shape{tables});
}

struct entries {
  std::size_t begin, end;
};

// What refuses stands apart, so that the loops below hold no formatting.

[[noreturn, gnu::cold]] void refuse_row(std::size_t row, std::int32_t begin, std::int32_t end,
                                        std::size_t entries) {
  throw std::out_of_range(fmt::format("row {} is entries {} to {} of {}", row, begin, end, entries));
}

[[noreturn, gnu::cold]] void refuse_column(std::int32_t column, std::size_t columns) {
  throw std::out_of_range(fmt::format("column {} of rows of {} columns", column, columns));
}

entries entries_of(const compressed_rows& x, std::size_t row) {
  const std::int32_t begin = x.offsets[row];
  const std::int32_t end = x.offsets[row + 1];
  if (begin < 0 || end < begin || static_cast<std::size_t>(end) > x.columns.size())
    refuse_row(row, begin, end, x.columns.size());
  return {static_cast<std::size_t>(begin), static_cast<std::size_t>(end)};
}

/// Returns the row of the table for a column of x. A negative column becomes a large unsigned number, so that
/// the same comparison finds it.
const float* row_of(std::span<const float> table, std::size_t width, std::int32_t column) {
  const std::size_t offset = static_cast<std::size_t>(static_cast<std::uint32_t>(column)) * width;
  if (offset + width > table.size() || width > table.size()) refuse_column(column, table.size() / width);
  return table.data() + offset;
}

/// Returns a * b + c. It is rounded once where the processor can, whatever the compiler thinks of the code
/// around it, so that the bits of a result do not change with that code.
float multiply_add(float a, float b, float c) {
#ifdef __FMA__
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}

/// The product for widths that fit into registers, such as the two columns of two classes.
template <std::size_t width>
void narrow_product(const compressed_rows& x, std::span<const float> table, float* y) {
  for (std::size_t i = 0; i < x.rows(); ++i, y += width) {
    const entries row = entries_of(x, i);
    std::array<float, width> sum{};
    for (std::size_t j = row.begin; j < row.end; ++j) {
      const float* w = row_of(table, width, x.columns[j]);
#pragma omp simd
      for (std::size_t c = 0; c < width; ++c) sum[c] = multiply_add(x.values[j], w[c], sum[c]);
    }
    std::ranges::copy(sum, y);
  }
}

/// A width that no table has is refused before a row of y is filled.
void wide_product(const compressed_rows& x, std::span<const float> table, std::size_t width, float* y) {
  if (width > table.size() && !x.columns.empty()) refuse_column(x.columns.front(), table.size() / width);
  for (std::size_t i = 0; i < x.rows(); ++i, y += width) {
    const entries row = entries_of(x, i);
    std::fill_n(y, width, 0.0F);
    for (std::size_t j = row.begin; j < row.end; ++j) {
      const float* w = row_of(table, width, x.columns[j]);
      const float v = x.values[j];
#pragma omp simd
      for (std::size_t c = 0; c < width; ++c) y[c] = multiply_add(v, w[c], y[c]);
    }
  }
}

void require_offsets(const char* kernel, const compressed_rows& x) {
  if (x.offsets.empty())
    throw shape_error(fmt::format("{}: there are no offsets, not even of no rows", kernel));
}

} // namespace

void gather(const stream& s, std::span<const float> table, std::size_t width,
            std::span<const std::int32_t> rows, float* result) {
  require_whole_rows("gather", table.size(), width);
  if (on_gpu<gather>(s, table, width, rows, result)) return;
  for (const std::int32_t row : rows)
    result = std::copy_n(table.data() + offset_of(row, width, table.size()), width, result);
}

std::size_t scatter_scratch_bytes(device_kind where, std::size_t rows) noexcept {
  return where == device_kind::cpu ? 0 : cuda::row_order_bytes(rows);
}

void scatter_rows(const stream& s, std::span<const std::int32_t> rows, const float* values, std::size_t width,
                  std::span<float> table, void* scratch) {
  require_whole_rows("scatter_rows", table.size(), width);
  if (on_gpu<scatter_rows>(s, rows, values, width, table, scratch)) return;
  std::ranges::fill(table, 0.0F);
  for (const std::int32_t row : rows) {
    if (row < 0) return;
    float* to = table.data() + offset_of(row, width, table.size());
#pragma omp simd
    for (std::size_t c = 0; c < width; ++c) to[c] += values[c];
    values += width;
  }
}

void gather_tables(const stream& s, std::span<const row_table> tables, std::size_t width,
                   std::span<const std::int32_t> rows, float* result) {
  require_whole_samples("gather_tables", rows.size(), tables.size());
  if (on_gpu<gather_tables>(s, tables, width, rows, result)) return;
  const std::size_t step = tables.size();
  for (std::size_t i = 0; i < rows.size(); i += step)
    for (std::size_t j = 0; j < step; ++j) {
      if (const std::size_t later = i + ahead * step + j;
          later < rows.size() && holds(tables[j], rows[later]))
        prefetch_row(tables[j].values + static_cast<std::size_t>(rows[later]) * width, width);
      result = std::copy_n(address(tables[j], rows[i + j], width), width, result);
    }
}

void gather_tables_gradient(const stream& s, std::span<const std::int32_t> rows, const float* gradient,
                            std::size_t width, std::span<const table_gradient> parts) {
  require_whole_samples("gather_tables_gradient", rows.size(), parts.size());
  if (on_gpu<gather_tables_gradient>(s, rows, gradient, width, parts)) return;
  const std::size_t samples = rows.size() / std::max<std::size_t>(1, parts.size());
  for (std::size_t i = 0; i < samples; ++i)
    for (std::size_t j = 0; j < parts.size(); ++j, gradient += width) {
      parts[j].rows[i] = rows[i * parts.size() + j];
      std::copy_n(gradient, width, parts[j].values + i * width);
    }
}

void sparse_product(const stream& s, const compressed_rows& x, std::span<const float> table,
                    std::size_t width, float* y) {
  require_offsets("sparse_product", x);
  if (on_gpu<sparse_product>(s, x, table, width, y)) return;
  switch (width) {
  case 1:
    return narrow_product<1>(x, table, y);
  case 2:
    return narrow_product<2>(x, table, y);
  case 4:
    return narrow_product<4>(x, table, y);
  case 8:
    return narrow_product<8>(x, table, y);
  default:
    return wide_product(x, table, width, y);
  }
}

void sparse_product_gradient(const stream& s, const compressed_rows& x, const float* dy, std::size_t width,
                             float* rows) {
  require_offsets("sparse_product_gradient", x);
  if (on_gpu<sparse_product_gradient>(s, x, dy, width, rows)) return;
  for (std::size_t i = 0; i < x.rows(); ++i, dy += width) {
    const entries row = entries_of(x, i);
    for (std::size_t j = row.begin; j < row.end; ++j) {
      const float v = x.values[j];
      float* to = rows + j * width;
#pragma omp simd
      for (std::size_t c = 0; c < width; ++c) to[c] = v * dy[c];
    }
  }
}

} // namespace mailgrad
