#pragma once

#include <mailgrad/kernels/cuda/column_sum.hpp>
#include <mailgrad/kernels/cuda/tile_reader.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

/// A matrix product whose operands are no matrices in memory, but are found element by element, by sources as
/// tile_reader.hpp describes them.
namespace mailgrad::cuda {

/// The part of a result that one block computes, `depth` positions at a time. Each thread computes
/// `thread_rows` x `thread_columns` of its elements.
template <unsigned Rows, unsigned Columns, unsigned Depth, unsigned ThreadRows, unsigned ThreadColumns>
struct product_tile {
  static constexpr unsigned rows = Rows, columns = Columns, depth = Depth;
  static constexpr unsigned thread_rows = ThreadRows, thread_columns = ThreadColumns;
  static constexpr unsigned threads_across = columns / thread_columns;
  static constexpr unsigned threads = rows / thread_rows * threads_across;
  static_assert(thread_rows % 4 == 0 && thread_columns % 4 == 0 && threads % warp_size == 0);

  /// Four floats of padding spread the lines of a tile over the banks of shared memory.
  static constexpr unsigned row_step = rows + 4, column_step = columns + 4;
  static constexpr unsigned buffer = depth * (row_step + column_step);
  static constexpr std::size_t shared_bytes = 2 * buffer * sizeof(float);
};

/// Where the sums go, and over which depth each block sums.
struct product_result {
  float* values; ///< [splits, rows, columns]
  std::uint32_t rows, columns, depth;
  std::uint32_t depth_of_split; ///< a multiple of the tile's depth
  bool packs;                   ///< whether four columns may be stored at once
};

/// The elements of a tile that a thread computes: packs of four rows, and of four columns, which lie apart so
/// that the threads of a warp read neighbouring packs.
template <class Tile>
struct thread_place {
  static constexpr unsigned lanes_across = Tile::threads_across < 8 ? Tile::threads_across : 8;
  static constexpr unsigned warps_across = Tile::threads_across / lanes_across;
  static constexpr unsigned row_packs = Tile::thread_rows / 4, column_packs = Tile::thread_columns / 4;

  __device__ thread_place() {
    const unsigned warp = threadIdx.x / warp_size, lane = threadIdx.x % warp_size;
    row_ = (warp / warps_across * (warp_size / lanes_across) + lane / lanes_across) * 4;
    column_ = (warp % warps_across * lanes_across + lane % lanes_across) * 4;
  }
  __device__ unsigned row(unsigned pack) const { return row_ + pack * (Tile::rows / row_packs); }
  __device__ unsigned column(unsigned pack) const { return column_ + pack * (Tile::columns / column_packs); }

private:
  unsigned row_, column_;
};

template <class Tile>
struct tile_sums {
  using place = thread_place<Tile>;

  __device__ void add(const float* room, const place& at) {
    const float* const right = room + Tile::depth * Tile::row_step;
#pragma unroll
    for (unsigned k = 0; k < Tile::depth; ++k) {
      float_pack a[place::row_packs], b[place::column_packs];
#pragma unroll
      for (unsigned i = 0; i < place::row_packs; ++i)
        a[i] = *reinterpret_cast<const float_pack*>(room + k * Tile::row_step + at.row(i));
#pragma unroll
      for (unsigned j = 0; j < place::column_packs; ++j)
        b[j] = *reinterpret_cast<const float_pack*>(right + k * Tile::column_step + at.column(j));
#pragma unroll
      for (unsigned i = 0; i < Tile::thread_rows; ++i)
#pragma unroll
        for (unsigned j = 0; j < Tile::thread_columns; ++j)
          values[i][j / 4].v[j % 4] += a[i / 4].v[i % 4] * b[j / 4].v[j % 4];
    }
  }

  __device__ void write(const product_result& to, const place& at) const {
#pragma unroll
    for (unsigned i = 0; i < Tile::thread_rows; ++i) {
      const std::uint32_t row = blockIdx.x * Tile::rows + at.row(i / 4) + i % 4;
      if (row >= to.rows) continue;
      float* const line = to.values + (std::size_t{blockIdx.z} * to.rows + row) * to.columns;
#pragma unroll
      for (unsigned j = 0; j < place::column_packs; ++j) {
        const std::uint32_t column = blockIdx.y * Tile::columns + at.column(j);
        if (to.packs) {
          if (column < to.columns) *reinterpret_cast<float_pack*>(line + column) = values[i][j];
          continue;
        }
#pragma unroll
        for (unsigned n = 0; n < 4; ++n)
          if (column + n < to.columns) line[column + n] = values[i][j].v[n];
      }
    }
  }

  float_pack values[Tile::thread_rows][place::column_packs];
};

/// Block (x, y, z) computes tile (x, y) over part z of the depth. Shared memory holds two tiles of the
/// operands: one is written while the other is read.
template <class Left, class Right, class Tile>
__global__ void __launch_bounds__(Tile::threads)
    implicit_product_kernel(Left left, Right right, product_result result) {
  float* const room = shared_memory<float>();
  tile_reader<Left, Tile::rows, Tile::depth, Tile::threads> lefts(left, blockIdx.x * Tile::rows);
  tile_reader<Right, Tile::columns, Tile::depth, Tile::threads> rights(right, blockIdx.y * Tile::columns);
  const thread_place<Tile> at;
  tile_sums<Tile> sums{};

  std::uint32_t k = blockIdx.z * result.depth_of_split;
  const std::uint32_t rest = result.depth - k;
  const std::uint32_t end = k + (rest < result.depth_of_split ? rest : result.depth_of_split);
  lefts.fetch(left, k);
  rights.fetch(right, k);
  for (unsigned buffer = 0; k < end; buffer ^= 1) {
    float* const tile = room + buffer * Tile::buffer;
    lefts.store(tile);
    rights.store(tile + Tile::depth * Tile::row_step);
    __syncthreads(); // also behind the last reading of the other tile, which the next turn writes
    k += Tile::depth;
    if (k < end) {
      lefts.fetch(left, k);
      rights.fetch(right, k);
    }
    sums.add(tile, at);
  }
  sums.write(result, at);
}

/// Three blocks of 128 threads lie on each multiprocessor where there is work enough.
inline constexpr std::size_t busy_tiles = multiprocessors * 3;

/// The number of parts that the depth is cut into, so that small results, too, keep all multiprocessors busy.
/// If the last round of blocks left most of them idle, there are fewer parts and one round less.
inline std::uint32_t splits_of(std::size_t tiles, std::size_t threads, std::size_t result_size,
                               std::size_t depth, std::size_t scratch_bytes) {
  constexpr std::size_t least_depth = 64;
  if (tiles >= multiprocessors * 3 / 2) return 1;
  const std::size_t wanted = busy_tiles * 128 / threads / tiles;
  const std::size_t room = scratch_bytes / sizeof(float) / result_size;
  const std::size_t splits = std::min({wanted, room, depth / least_depth});
  const std::size_t last_round = splits * tiles % multiprocessors;
  const bool leaves_idle = splits * tiles > multiprocessors && last_round < multiprocessors * 3 / 4;
  return static_cast<std::uint32_t>(
      std::max<std::size_t>(leaves_idle ? (splits * tiles - last_round) / tiles : splits, 1));
}

inline constexpr std::uint32_t parts_of(std::uint32_t n, std::uint32_t part) {
  return n / part + (n % part == 0 ? 0 : 1);
}

template <class Tile>
std::size_t tiles_of(const product_result& r) {
  return std::size_t{parts_of(r.rows, Tile::rows)} * parts_of(r.columns, Tile::columns);
}

template <class Tile, class Left, class Right>
void launch_product(const cuda_stream& s, const char* name, const Left& left, const Right& right,
                    product_result result) {
  const std::size_t size = std::size_t{result.rows} * result.columns;
  float* const values = result.values;
  std::uint32_t splits =
      splits_of(tiles_of<Tile>(result), Tile::threads, size, result.depth, s.scratch_bytes);
  result.depth_of_split = parts_of(parts_of(result.depth, splits), Tile::depth) * Tile::depth;
  splits = parts_of(result.depth, result.depth_of_split);
  if (splits > 1) result.values = static_cast<float*>(s.scratch);
  result.packs = result.columns % 4 == 0 && are_packs(result.values);
  const dim3 grid(parts_of(result.rows, Tile::rows), parts_of(result.columns, Tile::columns), splits);
  launch(s, name, grid, Tile::threads, Tile::shared_bytes, implicit_product_kernel<Left, Right, Tile>, left,
         right, result);
  if (splits > 1) sum_columns(s, name, result.values, splits, size, 1, values);
}

/// Computes `result`, of which `values` is the caller's memory, with tiles that suit its size.
///
/// Shapes  rows, columns and depth are positive.
template <class Left, class Right>
void implicit_product(const cuda_stream& s, const char* name, const Left& left, const Right& right,
                      const product_result& result) {
  using tiny = product_tile<32, 32, 16, 4, 4>;
  using narrow_8 = product_tile<256, 8, 8, 4, 4>;
  using narrow_16 = product_tile<128, 16, 16, 4, 4>;
  using narrow_32 = product_tile<128, 32, 16, 8, 4>;
  using large_32 = product_tile<256, 32, 8, 8, 8>;
  using medium = product_tile<64, 64, 16, 8, 4>;
  using large = product_tile<128, 64, 16, 8, 8>;
  constexpr std::uint32_t deep = 8192; // so that the depth of a few large tiles makes enough blocks
  if (result.rows <= tiny::rows) return launch_product<tiny>(s, name, left, right, result);
  if (result.columns <= 8) return launch_product<narrow_8>(s, name, left, right, result);
  if (result.columns <= 16) return launch_product<narrow_16>(s, name, left, right, result);
  if (result.columns <= 32) {
    if (tiles_of<large_32>(result) >= busy_tiles)
      return launch_product<large_32>(s, name, left, right, result);
    return launch_product<narrow_32>(s, name, left, right, result);
  }
  if (tiles_of<large>(result) >= 2 * multiprocessors || result.depth >= deep)
    return launch_product<large>(s, name, left, right, result);
  launch_product<medium>(s, name, left, right, result);
}

} // namespace mailgrad::cuda
