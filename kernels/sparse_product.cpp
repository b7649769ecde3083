#include <mailgrad/kernels/sparse_product.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>

namespace mailgrad::host {

// On the calling thread. There are offsets.

namespace {

/// The entries of one row.
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

} // namespace

void sparse_product(const compressed_rows& x, std::span<const float> table, std::size_t width, float* y) {
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

void sparse_product_gradient(const compressed_rows& x, const float* dy, std::size_t width, float* rows) {
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

} // namespace mailgrad::host

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
