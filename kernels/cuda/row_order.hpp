#pragma once

#include <mailgrad/kernels/cuda/packs.hpp>
#include <mailgrad/kernels/gather.hpp>

/// The order in which the rows of a list are added to a table: those of one row of the table one behind the
/// other, as they stand in the list. It is made on the GPU, which has the list, in two short kernels.

namespace mailgrad::cuda {

/// A row of the table, and below it the position in the list. All keys of a list differ, so any way of
/// sorting them gives the same order.
using row_key = std::uint64_t;

/// The row of keys that end the list: of numbers below 0.
inline constexpr std::uint32_t row_of_end = std::uint32_t{1} << 31;

constexpr row_key first_key_of(std::uint32_t row) { return row_key{row} << 32; }
constexpr std::uint32_t row_of(row_key key) { return static_cast<std::uint32_t>(key >> 32); }
constexpr std::uint32_t position_of(row_key key) { return static_cast<std::uint32_t>(key); }

/// Returns the keys of all n rows in ascending order, in `scratch`, which has row_order_bytes(n).
///
/// Shapes  n is at least 1 and below 2^31.
const row_key* order_rows(const cuda_stream& s, const std::int32_t* rows, std::uint32_t n, void* scratch);

// What kernels share that add up the rows of a list, each row of the table in the order of the list. A warp
// adds up a short run of equal rows, and all warps of a block share a long one.

inline constexpr unsigned warps_of_runs = threads_per_block / warp_size;
/// Longer runs of one row are shared by all warps of a block.
inline constexpr std::uint32_t longest_of_warp = 32;

struct key_range {
  std::uint32_t first, last;
  __device__ std::uint32_t size() const { return last - first; }
};

struct ordered_keys {
  const row_key* keys;
  std::uint32_t n;

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
  /// The keys of a row before that position.
  __device__ key_range run_of(std::uint32_t row, std::uint32_t list_end) const {
    const row_key key = first_key_of(row);
    return {below(key), below(key | list_end)};
  }
};

/// The sum of every `step`-th value of a range, of which eight are under way together.
template <unsigned size>
__device__ moved_floats<size> sum_of(const row_key* keys, key_range range, std::uint32_t step,
                                     const float* values, std::size_t width) {
  constexpr unsigned together = 8;
  moved_floats<size> sum{};
  for (std::uint32_t i = range.first; i < range.last; i += together * step) {
    moved_floats<size> found[together];
#pragma unroll
    for (unsigned t = 0; t < together; ++t) {
      found[t] = {};
      if (i + t * step < range.last)
        found[t] = load_floats<size>(values + position_of(keys[i + t * step]) * width);
    }
#pragma unroll
    for (unsigned t = 0; t < together; ++t)
#pragma unroll
      for (unsigned k = 0; k < size; ++k) sum.v[k] += found[t].v[k];
  }
  return sum;
}

/// Shared memory that sum_runs() needs for moves of this many floats.
constexpr std::size_t shared_bytes_of_runs(std::size_t size) {
  return warps_of_runs * sizeof(key_range) + threads_per_block * size * sizeof(float);
}

/// Gives each warp the sum of its run, `mine`, of which every lane adds up its own column, if it `works`.
/// All threads of a block call it together, and again only behind a __syncthreads().
template <unsigned size>
__device__ moved_floats<size> sum_runs(const row_key* keys, key_range mine, const float* values,
                                       std::size_t width, bool works) {
  auto* const shared_ranges = shared_memory<key_range>();
  auto* const workspace = reinterpret_cast<float*>(shared_ranges + warps_of_runs);
  const unsigned warp = threadIdx.x / warp_size, lane = threadIdx.x % warp_size;
  moved_floats<size> result{};
  if (mine.size() <= longest_of_warp && works) result = sum_of<size>(keys, mine, 1, values, width);
  if (lane == 0) shared_ranges[warp] = mine;
  __syncthreads();
  for (unsigned other = 0; other < warps_of_runs; ++other) {
    const key_range range = shared_ranges[other];
    if (range.size() <= longest_of_warp) continue;
    moved_floats<size> sum{};
    if (works) sum = sum_of<size>(keys, {range.first + warp, range.last}, warps_of_runs, values, width);
    store_in_block(workspace + threadIdx.x * size, sum);
    __syncthreads();
    if (warp == other && works) {
#pragma unroll
      for (unsigned k = 0; k < size; ++k) result.v[k] = workspace[lane * size + k];
      for (unsigned w = 1; w < warps_of_runs; ++w)
#pragma unroll
        for (unsigned k = 0; k < size; ++k) result.v[k] += workspace[(w * warp_size + lane) * size + k];
    }
    __syncthreads();
  }
  return result;
}

} // namespace mailgrad::cuda
