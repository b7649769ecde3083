#include <mailgrad/kernels/cuda/indices.hpp>
#include <mailgrad/kernels/cuda/packs.hpp>
#include <mailgrad/kernels/gather.hpp>

namespace mailgrad::cuda {

namespace {

/// Some of the rows that are asked for.
struct asked_rows {
  const std::int32_t* rows;
  std::uint32_t first; ///< the number of rows[0] among all that are asked for
  fault_report fault;  ///< its limit is the number of rows of the table

  /// Whether the table has the row. `speaks`: this thread notes it if not.
  __device__ bool has(std::uint32_t i, bool speaks) const {
    const std::int32_t row = rows[i];
    if (static_cast<std::size_t>(row) < fault.limit) return true; // a negative row becomes too large
    if (speaks) fault.note(first + i, row);
    return false;
  }
};

/// Each thread moves one float or one pack. `width` counts those, as `n` does.
template <unsigned size>
__global__ void gather_kernel(const float* table, asked_rows asked, float* result,
                              divider<std::uint32_t> width, std::uint32_t n) {
  for (std::size_t k = grid_thread(); k < n; k += grid_threads()) {
    auto column = static_cast<std::uint32_t>(k);
    const std::uint32_t i = width.divide(column);
    moved_floats<size> moved{};
    if (asked.has(i, column == 0))
      moved = load_floats<size>(table + (std::size_t(asked.rows[i]) * width.by() + column) * size);
    store_floats(result + k * size, moved);
  }
}

} // namespace

void gather(const cuda_stream& s, std::span<const float> table, std::size_t width,
            std::span<const std::int32_t> rows, float* result) {
  if (width == 0) return;
  const bool packs = width % float_pack::size == 0 && are_packs(table.data(), result);
  const std::size_t size = packs ? float_pack::size : 1;
  for_row_chunks(s, "gather", rows.size(), width, [&](std::size_t first, std::size_t count) {
    const std::size_t n = count * width / size;
    launch(s, "gather", blocks_for(n), threads_per_block, 0,
           packs ? gather_kernel<float_pack::size> : gather_kernel<1>, table.data(),
           asked_rows{rows.data() + first, static_cast<std::uint32_t>(first),
                      fault_of(s, fault_kind::row, table.size() / width)},
           result + first * width, divider<std::uint32_t>(width / size), static_cast<std::uint32_t>(n));
  });
}

} // namespace mailgrad::cuda
