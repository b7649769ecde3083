#pragma once

#include <mailgrad/tensor/stream.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace mailgrad {

/// Rows that are mostly zero: row i is the entries offsets[i] to offsets[i + 1]. Entries behind those of the
/// last row are not read.
struct compressed_rows {
  std::span<const std::int32_t> columns;
  const float* values; ///< as many as `columns`
  std::span<const std::int32_t> offsets;

  std::size_t rows() const noexcept { return offsets.size() - 1; }
};

/// y = x * table.
///
/// Shapes  table: float32[columns of x, width]; y: float32[x.rows(), width].
/// Errors  shape_error without offsets; std::out_of_range for a column that the table lacks or an offset
///         behind the entries. On a card such a fault is noted in the lane's words instead; device_error for
///         a card in a build without CUDA.
void sparse_product(const stream& s, const compressed_rows& x, std::span<const float> table,
                    std::size_t width, float* y);

/// The gradient with respect to the rows of the table that x.columns lists: entry j, which belongs to row i
/// of x, gives values[j] * dy[i] for row columns[j].
///
/// Shapes  rows: float32[x.columns.size(), width]; rows behind the last entry are not written.
/// Errors  as sparse_product.
void sparse_product_gradient(const stream& s, const compressed_rows& x, const float* dy, std::size_t width,
                             float* rows);

} // namespace mailgrad

namespace mailgrad::cuda {

/// sparse_product() on a stream of a card. A column that the table lacks, or a row whose entries are not
/// there, is noted in the lane's words, and left out.
void sparse_product(const cuda_stream& s, const compressed_rows& x, std::span<const float> table,
                    std::size_t width, float* y);
void sparse_product_gradient(const cuda_stream& s, const compressed_rows& x, const float* dy,
                             std::size_t width, float* rows);

} // namespace mailgrad::cuda
