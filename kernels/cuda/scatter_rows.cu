#include <mailgrad/kernels/cuda/packs.hpp>
#include <mailgrad/kernels/cuda/row_order.hpp>
#include <mailgrad/kernels/cuda/scatter_rows.hpp>
#include <mailgrad/tensor/error.hpp>

#include <string>

namespace mailgrad::cuda {

namespace {

constexpr unsigned warps = threads_per_block / warp_size;
/// Longer lists of one row are shared by all warps of a block.
constexpr std::uint32_t longest_of_warp = 32;

/// A list in the order of its rows, and what it is added to.
struct ordered_list {
  const row_key* keys;
  std::uint32_t n;
  fault_report fault; ///< its limit is the number of rows of the table

  /// The number of keys below this one.
  __device__ std::uint32_t below(row_key key) const {
    std::uint32_t low = 0, high = n;
    while (low < high) {
      const std::uint32_t middle = low + (high - low) / 2;
      if (keys[middle] < key)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }
  /// The position of the first number below 0, which ends the list.
  __device__ std::uint32_t end() const {
    const std::uint32_t found = below(first_key_of(row_of_end));
    return found < n ? position_of(keys[found]) : n;
  }
  /// Notes the rows that the table lacks.
  __device__ void note_faults(std::uint32_t list_end) const {
    if (fault.limit >= row_of_end) return;
    const std::uint32_t last = below(first_key_of(row_of_end));
    const auto height = static_cast<std::uint32_t>(fault.limit);
    for (std::uint32_t i = below(first_key_of(height)) + threadIdx.x; i < last; i += blockDim.x)
      if (position_of(keys[i]) < list_end)
        fault.note(position_of(keys[i]), static_cast<std::int32_t>(row_of(keys[i])));
  }
};

/// The keys of one row of the table.
struct key_range {
  std::uint32_t first, last;
  __device__ std::uint32_t size() const { return last - first; }
};

/// The sum of every `step`-th value of a range, of which eight are under way together.
template <unsigned size>
__device__ moved_floats<size> sum_of(const ordered_list& list, key_range range, std::uint32_t step,
                                     const float* values, std::size_t width) {
  constexpr unsigned together = 8;
  moved_floats<size> sum{};
  for (std::uint32_t i = range.first; i < range.last; i += together * step) {
    moved_floats<size> found[together];
#pragma unroll
    for (unsigned t = 0; t < together; ++t) {
      found[t] = {};
      if (i + t * step < range.last)
        found[t] = load_floats<size>(values + position_of(list.keys[i + t * step]) * width);
    }
#pragma unroll
    for (unsigned t = 0; t < together; ++t)
#pragma unroll
      for (unsigned k = 0; k < size; ++k) sum.v[k] += found[t].v[k];
  }
  return sum;
}

/// Block (x, y) has some rows of the table, each of which a warp begins, and 32 columns or packs of them.
template <unsigned size>
__global__ void scatter_kernel(ordered_list list, const float* values, std::size_t width, float* table,
                               unsigned rows_of_block) {
  auto* const shared_ranges = shared_memory<key_range>();
  auto* const room = reinterpret_cast<float*>(shared_ranges + warps);
  const unsigned warp = threadIdx.x / warp_size, lane = threadIdx.x % warp_size;
  const std::size_t column = (std::size_t{blockIdx.y} * warp_size + lane) * size;
  const bool works = column < width;
  const std::uint32_t end = list.end();
  if (blockIdx.x == 0 && blockIdx.y == 0) list.note_faults(end);

  const std::size_t first_row = std::size_t{blockIdx.x} * rows_of_block, row = first_row + warp;
  key_range mine{0, 0};
  if (warp < rows_of_block && row < list.fault.limit) {
    const row_key key = first_key_of(static_cast<std::uint32_t>(row));
    mine = {list.below(key), list.below(key | end)};
    if (mine.size() <= longest_of_warp && works)
      store_floats<size>(table + row * width + column, sum_of<size>(list, mine, 1, values + column, width));
  }
  if (lane == 0) shared_ranges[warp] = mine;
  __syncthreads();

  for (unsigned other = 0; other < rows_of_block; ++other) {
    const key_range range = shared_ranges[other];
    if (range.size() <= longest_of_warp) continue;
    moved_floats<size> sum{};
    if (works) sum = sum_of<size>(list, {range.first + warp, range.last}, warps, values + column, width);
    store_in_block(room + threadIdx.x * size, sum);
    __syncthreads();
    if (warp == 0 && works) {
      for (unsigned w = 1; w < warps; ++w)
#pragma unroll
        for (unsigned k = 0; k < size; ++k) sum.v[k] += room[(w * warp_size + lane) * size + k];
      store_floats<size>(table + (first_row + other) * width + column, sum);
    }
    __syncthreads();
  }
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
  const ordered_list list{order_rows(s, rows.data(), n, scratch), n, fault_of(s, fault_kind::row, height)};
  const bool packs = width % float_pack::size == 0 && are_packs(values, table.data());
  const std::size_t size = packs ? float_pack::size : 1, columns = warp_size * size;
  const unsigned rows_of_block = height < busy_blocks ? 1 : warps;
  const dim3 grid(static_cast<unsigned>((height + rows_of_block - 1) / rows_of_block),
                  static_cast<unsigned>((width + columns - 1) / columns));
  launch(s, "scatter_rows", grid, threads_per_block,
         warps * sizeof(key_range) + threads_per_block * size * sizeof(float),
         packs ? scatter_kernel<float_pack::size> : scatter_kernel<1>, list, values, width, table.data(),
         rows_of_block);
}

} // namespace mailgrad::cuda
