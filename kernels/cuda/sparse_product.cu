#include <mailgrad/kernels/sparse_product.hpp>

#include <mailgrad/kernels/cuda/row_lanes.hpp>

namespace mailgrad::cuda {

namespace {

constexpr unsigned rows_of_block = threads_per_block / warp_size;

/// Compressed rows on a card.
struct rows_on_card {
  const std::int32_t* columns;
  const float* values;
  const std::int32_t* offsets;
  std::size_t entries, rows;
  fault_report wrong_row; ///< its limit is the number of entries

  struct range {
    std::size_t first, last;
  };
  /// The entries of a row, none if they are not all there. `speaks`: this thread notes it then.
  __device__ range entries_of(std::size_t row, bool speaks) const {
    const std::int32_t first = offsets[row], last = offsets[row + 1];
    if (first >= 0 && last >= first && static_cast<std::size_t>(last) <= entries)
      return {static_cast<std::size_t>(first), static_cast<std::size_t>(last)};
    if (speaks) wrong_row.note(static_cast<std::uint32_t>(row), first >= 0 && last >= first ? last : first);
    return {0, 0};
  }
};

/// A warp has a row: `width_lanes` neighbours have that many columns of the result, and the other threads of
/// a column take its entries in turn.
__global__ void sparse_product_kernel(rows_on_card x, const float* table, std::size_t width,
                                      unsigned width_lanes, float* y, fault_report wrong_column) {
  const unsigned lane = threadIdx.x % warp_size, group = lane / width_lanes, groups = warp_size / width_lanes;
  const std::size_t step = grid_threads() / warp_size;
  for (std::size_t row = grid_thread() / warp_size; row < x.rows; row += step) {
    const rows_on_card::range found = x.entries_of(row, lane == 0);
    for (std::size_t first = 0; first < width; first += width_lanes) {
      const std::size_t column = first + lane % width_lanes;
      float sum = 0;
      for (std::size_t j = found.first + group; j < found.last; j += groups) {
        const std::int32_t at = x.columns[j];
        if (static_cast<std::size_t>(at) < wrong_column.limit) { // a negative column becomes too large
          if (column < width) sum += x.values[j] * table[std::size_t(at) * width + column];
        } else if (column == 0) {
          wrong_column.note(static_cast<std::uint32_t>(j), at);
        }
      }
      for (unsigned distance = warp_size / 2; distance >= width_lanes; distance /= 2)
        sum += __shfl_xor_sync(0xffffffffU, sum, distance);
      if (group == 0 && column < width) y[row * width + column] = sum;
    }
  }
}

/// A warp has a row of x, and shares its entries and their numbers as the product does.
__global__ void sparse_product_gradient_kernel(rows_on_card x, const float* dy, std::size_t width,
                                               unsigned width_lanes, float* rows) {
  const unsigned lane = threadIdx.x % warp_size, group = lane / width_lanes, groups = warp_size / width_lanes;
  const std::size_t step = grid_threads() / warp_size;
  for (std::size_t row = grid_thread() / warp_size; row < x.rows; row += step) {
    const rows_on_card::range found = x.entries_of(row, lane == 0);
    for (std::size_t j = found.first + group; j < found.last; j += groups)
      for (std::size_t column = lane % width_lanes; column < width; column += width_lanes)
        rows[j * width + column] = x.values[j] * dy[row * width + column];
  }
}

unsigned lanes_of_width(std::size_t width) {
  unsigned lanes = 1;
  while (lanes < warp_size && lanes < width) lanes *= 2;
  return lanes;
}

rows_on_card on_card(const cuda_stream& s, const compressed_rows& x) {
  return {x.columns.data(), x.values, x.offsets.data(),
          x.columns.size(), x.rows(), fault_of(s, fault_kind::entries, x.columns.size())};
}

} // namespace

void sparse_product(const cuda_stream& s, const compressed_rows& x, std::span<const float> table,
                    std::size_t width, float* y) {
  if (x.rows() * width == 0) return;
  launch(s, "sparse_product", blocks_for(x.rows(), rows_of_block), threads_per_block, 0,
         sparse_product_kernel, on_card(s, x), table.data(), width, lanes_of_width(width), y,
         fault_of(s, fault_kind::column, table.size() / width));
}

void sparse_product_gradient(const cuda_stream& s, const compressed_rows& x, const float* dy,
                             std::size_t width, float* rows) {
  if (x.rows() * width == 0) return;
  launch(s, "sparse_product_gradient", blocks_for(x.rows(), rows_of_block), threads_per_block, 0,
         sparse_product_gradient_kernel, on_card(s, x), dy, width, lanes_of_width(width), rows);
}

} // namespace mailgrad::cuda
