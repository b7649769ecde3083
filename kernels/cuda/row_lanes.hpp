#pragma once

#include <mailgrad/kernels/cuda/packs.hpp>

/// Kernels along the rows of a matrix. A short row lies in the registers of up to a warp, a long one is read
/// several times by a block.
namespace mailgrad::cuda {

/// Rows of at most so many elements lie in registers.
inline constexpr std::size_t longest_register_row = 1024;

/// `width` neighbouring threads, a power of two, have a row together.
struct row_lanes {
  std::size_t rows, columns;
  unsigned width;
};

/// The lanes for rows that a thread holds `count` elements of, and the blocks for them.
inline row_lanes lanes_of(std::size_t rows, std::size_t columns) {
  unsigned width = 1;
  while (width < warp_size && width < columns) width *= 2;
  return {rows, columns, width};
}
inline unsigned blocks_of(const row_lanes& n) { return blocks_for(n.rows, threads_per_block / n.width); }

/// Combines the values of `width` neighbouring threads, in a fixed order; every thread has the result.
template <class T, class Combine>
__device__ T over_lanes(T x, unsigned width, Combine combine) {
  for (unsigned distance = width / 2; distance > 0; distance /= 2)
    x = combine(x, __shfl_xor_sync(0xffffffffU, x, distance));
  return x;
}

struct larger {
  __device__ float operator()(float a, float b) const { return b > a ? b : a; }
};
struct plus {
  __device__ float operator()(float a, float b) const { return a + b; }
};

/// The largest number over all threads of a block; as block_sum(), on which see launch.hpp.
__device__ inline float block_largest(float x, float* workspace) {
  const unsigned warp = threadIdx.x / warp_size, place = threadIdx.x % warp_size;
  x = over_lanes(x, warp_size, larger{});
  __syncthreads();
  if (place == 0) workspace[warp] = x;
  __syncthreads();
  return over_lanes(place < blockDim.x / warp_size ? workspace[place] : workspace[0], warp_size, larger{});
}

/// exp(x) for x of at most 0, by the GPU's own power of two: the relative error is at most 1e-7 |x| + 3e-7.
/// The host's formula would take longer than reading and writing the row.
__device__ inline float exp_of_negative(float x) { return exp2f(x * 1.44269504F); }

/// Calls visit(row, lane), where `row` is at least n.rows for threads that have none. All threads of a warp
/// take the same number of turns, since they exchange what they have.
template <class Visit>
__device__ void for_each_row(const row_lanes& n, Visit visit) {
  const std::size_t step = grid_threads() / n.width, group = grid_thread() / n.width;
  const unsigned lane = threadIdx.x % n.width;
  for (std::size_t turn = 0; turn < n.rows; turn += step) visit(turn + group, lane);
}

/// What a thread has of a row: `count` elements, in packs of `size` neighbours that one instruction moves.
/// Its packs are `lane`, `lane` + width and so on.
template <unsigned count, unsigned size>
struct register_row {
  static constexpr unsigned packs = count / size;
  float v[count];

  /// `absent` stands for the elements that are not there.
  template <class X>
  __device__ register_row(const X* x, const row_lanes& n, std::size_t row, unsigned lane, float absent) {
    const X* const from = x + row * n.columns;
    const unsigned columns = row < n.rows ? static_cast<unsigned>(n.columns) : 0;
#pragma unroll
    for (unsigned p = 0; p < packs; ++p) {
      const unsigned column = (lane + p * n.width) * size;
      moved_floats<size> found;
#pragma unroll
      for (unsigned i = 0; i < size; ++i) found.v[i] = absent;
      if (column < columns) found = load_floats<size>(from + column);
#pragma unroll
      for (unsigned i = 0; i < size; ++i) v[p * size + i] = found.v[i];
    }
  }
  template <class Y>
  __device__ void store(Y* y, const row_lanes& n, std::size_t row, unsigned lane) const {
    Y* const to = y + row * n.columns;
    const unsigned columns = row < n.rows ? static_cast<unsigned>(n.columns) : 0;
#pragma unroll
    for (unsigned p = 0; p < packs; ++p) {
      const unsigned column = (lane + p * n.width) * size;
      moved_floats<size> made;
#pragma unroll
      for (unsigned i = 0; i < size; ++i) made.v[i] = v[p * size + i];
      if (column < columns) store_floats<size>(to + column, made);
    }
  }
  /// Whether the row has the element in place `i` of `v`.
  __device__ static bool has(unsigned i, const row_lanes& n, unsigned lane) {
    return (lane + i / size * n.width) * size < n.columns;
  }
  /// The place in `v` of the element in this column, at least `count` if another thread has it.
  __device__ static unsigned place_of(unsigned column, const row_lanes& n, unsigned lane) {
    const unsigned pack = column / size;
    return pack % n.width == lane ? pack / n.width * size + column % size : count;
  }
};

/// Calls launch_with.template operator()<count, size>() for the number of elements that a thread has of a
/// register row, and of those in a pack. `packed` tells whether rows and arrays allow packs of four.
template <class Launch>
void with_register_count(std::size_t columns, bool packed, Launch launch_with) {
  const std::size_t needed = (columns + warp_size - 1) / warp_size;
  const auto with = [&]<unsigned count>() {
    if (packed) return launch_with.template operator()<count, float_pack::size>();
    launch_with.template operator()<count, 1>();
  };
  if (needed <= 1) return launch_with.template operator()<1, 1>();
  if (needed <= 2) return launch_with.template operator()<2, 1>();
  if (needed <= 4) return with.template operator()<4>();
  if (needed <= 8) return with.template operator()<8>();
  if (needed <= 16) return with.template operator()<16>();
  if (needed <= 24) return with.template operator()<24>();
  with.template operator()<32>();
}

/// Whether each row of these arrays begins where a pack may.
template <class... T>
bool are_packed_rows(std::size_t columns, const T*... arrays) {
  return columns % float_pack::size == 0 && are_packs(arrays...);
}

} // namespace mailgrad::cuda
