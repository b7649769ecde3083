#include <mailgrad/kernels/sparse_product.hpp>

#include <mailgrad/kernels/no_cuda.hpp>
#include <mailgrad/tensor/error.hpp>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

namespace mailgrad {

namespace {

/// Entries of one row.
struct entries {
  std::size_t begin, end;
};

entries entries_of(const compressed_rows& x, std::size_t row) {
  const std::int32_t begin = x.offsets[row];
  const std::int32_t end = x.offsets[row + 1];
  if (begin < 0 || end < begin || static_cast<std::size_t>(end) > x.columns.size())
    throw std::out_of_range("row " + std::to_string(row) + " is entries " + std::to_string(begin) + " to " +
                            std::to_string(end) + " of " + std::to_string(x.columns.size()));
  return {static_cast<std::size_t>(begin), static_cast<std::size_t>(end)};
}

/// One comparison finds negative columns too.
const float* row_of(std::span<const float> table, std::size_t width, std::int32_t column) {
  const std::size_t offset = static_cast<std::size_t>(static_cast<std::uint32_t>(column)) * width;
  if (offset + width > table.size() || width > table.size())
    throw std::out_of_range("column " + std::to_string(column) + " of rows of " +
                            std::to_string(table.size() / width) + " columns");
  return table.data() + offset;
}

/// For the width of two classes, and others that fit into registers.
template <std::size_t width>
void narrow_product(const compressed_rows& x, std::span<const float> table, float* y) {
  for (std::size_t i = 0; i < x.rows(); ++i, y += width) {
    const entries row = entries_of(x, i);
    std::array<float, width> sum{};
    for (std::size_t j = row.begin; j < row.end; ++j) {
      const float* w = row_of(table, width, x.columns[j]);
      for (std::size_t c = 0; c < width; ++c) sum[c] += x.values[j] * w[c];
    }
    std::ranges::copy(sum, y);
  }
}

void wide_product(const compressed_rows& x, std::span<const float> table, std::size_t width, float* y) {
  for (std::size_t i = 0; i < x.rows(); ++i, y += width) {
    const entries row = entries_of(x, i);
    std::fill_n(y, width, 0.0F);
    for (std::size_t j = row.begin; j < row.end; ++j) {
      const float* w = row_of(table, width, x.columns[j]);
      const float v = x.values[j];
#pragma omp simd
      for (std::size_t c = 0; c < width; ++c) y[c] += v * w[c];
    }
  }
}

void require_offsets(const char* kernel, const compressed_rows& x) {
  if (x.offsets.empty())
    throw shape_error(std::string(kernel) + ": there are no offsets, not even of no rows");
}

} // namespace

void sparse_product(const stream& s, const compressed_rows& x, std::span<const float> table,
                    std::size_t width, float* y) {
  require_host(s, "sparse_product");
  require_offsets("sparse_product", x);
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
  require_host(s, "sparse_product_gradient");
  require_offsets("sparse_product_gradient", x);
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
