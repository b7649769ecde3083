#include <mailgrad/kernels/cuda/row_order.hpp>

#include <mailgrad/kernels/cuda/launch.hpp>

#include <bit>

namespace mailgrad::cuda {

namespace {

constexpr unsigned largest_tile = 2048;

/// Sorts a tile of keys in shared memory, two by each thread.
///
/// Source  Batcher, "Sorting networks and their applications", AFIPS 1968: the bitonic sorter.
__global__ void sort_tile_kernel(const std::int32_t* rows, std::uint32_t n, row_key* keys) {
  auto* const room = shared_memory<row_key>();
  const unsigned tile = 2 * blockDim.x;
  for (unsigned i = threadIdx.x; i < tile; i += blockDim.x) {
    const std::uint32_t position = blockIdx.x * tile + i;
    row_key key = ~row_key{0};
    if (position < n) {
      const std::int32_t row = rows[position];
      key = first_key_of(row < 0 ? row_of_end : static_cast<std::uint32_t>(row)) | position;
    }
    room[i] = key;
  }
  for (unsigned run = 2; run <= tile; run *= 2)
    for (unsigned distance = run / 2; distance > 0; distance /= 2) {
      __syncthreads();
      const unsigned i = threadIdx.x / distance * 2 * distance + threadIdx.x % distance;
      const row_key a = room[i], b = room[i + distance];
      if ((a > b) == ((i & run) == 0)) {
        room[i] = b;
        room[i + distance] = a;
      }
    }
  __syncthreads();
  for (unsigned i = threadIdx.x; i < tile; i += blockDim.x)
    if (blockIdx.x * tile + i < n) keys[blockIdx.x * tile + i] = room[i];
}

/// Puts each key where it belongs among those of all tiles: behind as many as are smaller.
__global__ void merge_kernel(const row_key* sorted, std::uint32_t n, std::uint32_t tile, row_key* keys) {
  const auto i = static_cast<std::uint32_t>(grid_thread());
  if (i >= n) return;
  const row_key key = sorted[i];
  std::uint32_t place = i % tile;
  for (std::uint32_t first = 0; first < n; first += tile) {
    if (first == i - i % tile) continue;
    std::uint32_t low = first, high = n - first < tile ? n : first + tile;
    while (low < high) {
      const std::uint32_t middle = low + (high - low) / 2;
      if (sorted[middle] < key)
        low = middle + 1;
      else
        high = middle;
    }
    place += low - first;
  }
  keys[place] = key;
}

} // namespace

const row_key* order_rows(const cuda_stream& s, const std::int32_t* rows, std::uint32_t n, void* scratch) {
  auto* const sorted = static_cast<row_key*>(scratch);
  const unsigned tile = std::clamp(std::bit_ceil(n), 2 * warp_size, largest_tile);
  const std::uint32_t tiles = n / tile + (n % tile == 0 ? 0 : 1);
  launch(s, "order_rows", tiles, tile / 2, tile * sizeof(row_key), sort_tile_kernel, rows, n, sorted);
  if (tiles == 1) return sorted;
  row_key* const keys = sorted + n;
  launch(s, "order_rows", (n - 1) / threads_per_block + 1, threads_per_block, 0, merge_kernel, sorted, n,
         tile, keys);
  return keys;
}

} // namespace mailgrad::cuda
