#include <mailgrad/kernels/cuda/row_order.hpp>
#include <mailgrad/kernels/gather.hpp>
#include <mailgrad/tensor/error.hpp>

#include <string>

namespace mailgrad::cuda {

namespace {

/// A list in the order of its rows, and what it is added to.
struct ordered_list {
  ordered_keys order;
  fault_report fault; ///< its limit is the number of rows of the table

  /// Notes the rows that the table lacks.
  __device__ void note_faults(std::uint32_t list_end) const {
    if (fault.limit >= row_of_end) return;
    const std::uint32_t last = order.below(first_key_of(row_of_end));
    const auto height = static_cast<std::uint32_t>(fault.limit);
    for (std::uint32_t i = order.below(first_key_of(height)) + threadIdx.x; i < last; i += blockDim.x)
      if (position_of(order.keys[i]) < list_end)
        fault.note(position_of(order.keys[i]), static_cast<std::int32_t>(row_of(order.keys[i])));
  }
};

/// Block (x, y) has some rows of the table, each of which a warp begins, and 32 columns or packs of them.
template <unsigned size>
__global__ void scatter_kernel(ordered_list list, const float* values, std::size_t width, float* table,
                               unsigned rows_of_block) {
  const unsigned warp = threadIdx.x / warp_size, lane = threadIdx.x % warp_size;
  const std::size_t column = (std::size_t{blockIdx.y} * warp_size + lane) * size;
  const bool works = column < width;
  const std::uint32_t end = list.order.end();
  if (blockIdx.x == 0 && blockIdx.y == 0) list.note_faults(end);

  const std::size_t row = std::size_t{blockIdx.x} * rows_of_block + warp;
  const bool has_row = warp < rows_of_block && row < list.fault.limit;
  key_range mine{0, 0};
  if (has_row) mine = list.order.run_of(static_cast<std::uint32_t>(row), end);
  const moved_floats<size> sum = sum_runs<size>(list.order.keys, mine, values + column, width, works);
  if (has_row && works) store_floats<size>(table + row * width + column, sum);
}

} // namespace

void scatter_rows(const cuda_stream& s, std::span<const std::int32_t> rows, const float* values,
                  std::size_t width, std::span<float> table, void* scratch) {
  if (table.empty()) return;
  if (rows.empty()) return runtime::fill(s.stream, table.data(), 0, table.size_bytes());
  if (rows.size() > s.most_in_32_bits)
    throw shape_error("scatter_rows: a card takes fewer than 2^31 rows, not " + std::to_string(rows.size()));
  const auto n = static_cast<std::uint32_t>(rows.size());
  const std::size_t height = table.size() / width;
  const ordered_list list{{order_rows(s, rows.data(), n, scratch), n}, fault_of(s, fault_kind::row, height)};
  const bool packs = width % float_pack::size == 0 && are_packs(values, table.data());
  const std::size_t size = packs ? float_pack::size : 1, columns = warp_size * size;
  const unsigned rows_of_block = height < busy_blocks ? 1 : warps_of_runs;
  const dim3 grid(static_cast<unsigned>((height + rows_of_block - 1) / rows_of_block),
                  static_cast<unsigned>((width + columns - 1) / columns));
  launch(s, "scatter_rows", grid, threads_per_block, shared_bytes_of_runs(size),
         packs ? scatter_kernel<float_pack::size> : scatter_kernel<1>, list, values, width, table.data(),
         rows_of_block);
}

} // namespace mailgrad::cuda
