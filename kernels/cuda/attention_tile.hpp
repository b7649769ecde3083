#pragma once

#include <mailgrad/kernels/attention.hpp>
#include <mailgrad/kernels/cuda/attention_vectors.hpp>
#include <mailgrad/kernels/cuda/rounded_packs.hpp>
#include <mailgrad/kernels/cuda/row_lanes.hpp>

#include <cmath>
#include <cstddef>

/// What the kernels of attention share. A block has `rows` positions, say queries, and meets `columns` other
/// ones at a time, say keys. It multiplies their vectors pair by pair, makes weights of the products, and
/// adds up weighted vectors of the columns. The kernels are the same for tiles in float32, which are here,
/// and in bfloat16 (attention_matrices.hpp).
///
/// Source  Dao, Fu, Ermon, Rudra & Ré, "FlashAttention", NeurIPS 2022, algorithms 1 and 4, in the order of
///         Dao, "FlashAttention-2", 2023, arXiv:2307.08691. Differs: the gradient in two kernels, of which
///         each adds up what it alone writes.
namespace mailgrad::cuda {

/// The sizes of a block. A thread has ThreadRows x ThreadColumns pairs: every fourth row of its warp's rows,
/// and every eighth column. So the threads that load from shared memory together read neighbouring rows of
/// it, which the four floats of padding put into different banks.
template <unsigned Width, unsigned Warps, unsigned ThreadRows, unsigned ThreadColumns>
struct attention_tile {
  using number = float;
  using pack = float_pack;
  static constexpr unsigned tiles = 1;       ///< of columns that there is room for
  static constexpr unsigned row_threads = 8; ///< that have a row together
  static constexpr unsigned width = Width;   ///< numbers of a vector; those that a head lacks are zeros
  static constexpr unsigned threads = Warps * warp_size;
  static constexpr unsigned thread_rows = ThreadRows, thread_columns = ThreadColumns;
  static constexpr unsigned warp_rows = 4 * ThreadRows, rows = Warps * warp_rows;
  static constexpr unsigned columns = 8 * ThreadColumns;
  static constexpr unsigned step = width + 4;          ///< floats of shared memory from vector to vector
  static constexpr unsigned result_packs = width / 32; ///< of a row of results that a thread has
  static_assert(width % 32 == 0 && thread_columns % 4 == 0);

  /// Weights go from thread to thread by way of shared memory, for 32 columns at a time.
  static constexpr unsigned part_columns = 32, part_step = part_columns + 8;
  static constexpr unsigned vectors_of_rows = rows * step, vectors_of_columns = columns * step;
  static constexpr unsigned weights = rows * part_step; // in floats, as the two above
};

/// The pairs and the results that a thread of a tile has.
template <class Tile>
struct attention_place {
  unsigned warp_row, first_row, lane;

  __device__ attention_place()
      : warp_row(threadIdx.x / warp_size * Tile::warp_rows),
        first_row(warp_row + threadIdx.x % warp_size / 8), lane(threadIdx.x % 8) {}
  __device__ unsigned row(unsigned i) const { return first_row + 4 * i; }
  __device__ unsigned column(unsigned j) const { return lane + 8 * j; }
  __device__ unsigned number(unsigned pack) const { return lane * 4 + pack * 32; } ///< in a row of results
};

__device__ inline float_pack pack_in_block(const float* x) { return *reinterpret_cast<const float_pack*>(x); }

/// 2^x, of which the smallest are 0. exp2f() takes two more instructions, for those.
__device__ inline float power_of_2(float x) {
#ifdef __CUDACC__
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return exp2f(x);
#endif
}

/// A number for each pair of a thread.
template <class Tile>
struct attention_pairs {
  float v[Tile::thread_rows][Tile::thread_columns];

  /// The product of the vectors of each pair.
  __device__ void multiply(const float* rows, const float* columns, const attention_place<Tile>& at) {
#pragma unroll
    for (unsigned i = 0; i < Tile::thread_rows; ++i)
#pragma unroll
      for (unsigned j = 0; j < Tile::thread_columns; ++j) v[i][j] = 0;
#pragma unroll 2
    for (unsigned k = 0; k < Tile::width; k += float_pack::size) {
      float_pack row[Tile::thread_rows];
#pragma unroll
      for (unsigned i = 0; i < Tile::thread_rows; ++i)
        row[i] = pack_in_block(rows + at.row(i) * Tile::step + k);
#pragma unroll
      for (unsigned j = 0; j < Tile::thread_columns; ++j) {
        const float_pack column = pack_in_block(columns + at.column(j) * Tile::step + k);
#pragma unroll
        for (unsigned n = 0; n < float_pack::size; ++n)
#pragma unroll
          for (unsigned i = 0; i < Tile::thread_rows; ++i) v[i][j] += row[i].v[n] * column.v[n];
      }
    }
  }
};

/// A vector for each row, of which a thread has `result_packs` packs for each of its rows.
template <class Tile>
struct attention_rows {
  float_pack v[Tile::thread_rows][Tile::result_packs];

  /// Adds the vectors of all columns, each times the weight of its pair. `room` is shared memory for
  /// Tile::weights floats. A warp reads only what it has written, so it waits for no other.
  __device__ void add(const attention_pairs<Tile>& weights, const float* columns, float* room,
                      const attention_place<Tile>& at) {
#pragma unroll
    for (unsigned part = 0; part < Tile::columns / Tile::part_columns; ++part) {
      __syncwarp(); // the part before may still be read
#pragma unroll
      for (unsigned i = 0; i < Tile::thread_rows; ++i)
#pragma unroll
        for (unsigned j = 0; j < 4; ++j)
          room[at.row(i) * Tile::part_step + at.column(j)] = weights.v[i][part * 4 + j];
      __syncwarp();
      add_part(columns + part * Tile::part_columns * Tile::step, room, at);
    }
  }

  __device__ void scale(unsigned i, float factor) {
#pragma unroll
    for (unsigned m = 0; m < Tile::result_packs; ++m)
#pragma unroll
      for (unsigned n = 0; n < float_pack::size; ++n) v[i][m].v[n] *= factor;
  }

  /// Writes the rows of positions `first` and so on, as `to` has them.
  __device__ void store(float* values, const head_layout& to, unsigned first,
                        const attention_place<Tile>& at) const {
#pragma unroll
    for (unsigned i = 0; i < Tile::thread_rows; ++i) {
      const unsigned position = first + at.row(i);
      if (position >= to.window) continue;
      float* const line = values + position * to.step;
#pragma unroll
      for (unsigned m = 0; m < Tile::result_packs; ++m) {
        const unsigned number = at.number(m);
        if (to.packs) {
          if (number < to.width) store_pack(line + number, v[i][m]);
          continue;
        }
#pragma unroll
        for (unsigned n = 0; n < float_pack::size; ++n)
          if (number + n < to.width) line[number + n] = v[i][m].v[n];
      }
    }
  }

private:
  __device__ void add_part(const float* columns, const float* room, const attention_place<Tile>& at) {
#pragma unroll 2
    for (unsigned k = 0; k < Tile::part_columns; k += float_pack::size) {
      float_pack weight[Tile::thread_rows];
#pragma unroll
      for (unsigned i = 0; i < Tile::thread_rows; ++i)
        weight[i] = pack_in_block(room + at.row(i) * Tile::part_step + k);
#pragma unroll
      for (unsigned n = 0; n < float_pack::size; ++n)
#pragma unroll
        for (unsigned m = 0; m < Tile::result_packs; ++m) {
          const float_pack column = pack_in_block(columns + (k + n) * Tile::step + at.number(m));
#pragma unroll
          for (unsigned i = 0; i < Tile::thread_rows; ++i)
#pragma unroll
            for (unsigned q = 0; q < float_pack::size; ++q) v[i][m].v[q] += weight[i].v[n] * column.v[q];
        }
    }
  }
};

/// Where the heads of a batch lie. Block (x, y) works on head x, counted over all samples.
struct attention_heads {
  attention_shape a;
  bool packs; ///< whether all heads of all arrays begin where a pack may

  __device__ std::size_t sample() const { return blockIdx.x / static_cast<unsigned>(a.heads); }
  __device__ std::size_t head() const { return blockIdx.x % static_cast<unsigned>(a.heads); }
  /// The first number of queries (0), keys (1) or values (2) in an array like qkv.
  __device__ std::size_t in_qkv(unsigned part) const {
    return (sample() * a.window * 3 + part) * a.width() + head() * a.head_width;
  }
  __device__ std::size_t in_y() const { return sample() * a.window * a.width() + head() * a.head_width; }
  /// The first number of an array that has one for each position of each head.
  __device__ std::size_t in_positions() const { return blockIdx.x * a.window; }

  __device__ head_layout layout_of_qkv() const { return layout(3 * a.width()); }
  __device__ head_layout layout_of_y() const { return layout(a.width()); }
  template <class T>
  __device__ head_vectors<T> vectors_of_qkv(const T* qkv, unsigned part) const {
    return {layout_of_qkv(), qkv + in_qkv(part)};
  }
  template <class T>
  __device__ head_vectors<T> vectors_of_y(const T* y) const {
    return {layout_of_y(), y + in_y()};
  }

private:
  __device__ head_layout layout(std::size_t step) const {
    return {step, static_cast<unsigned>(a.window), static_cast<unsigned>(a.head_width), packs};
  }
};

constexpr float log2_of_e = 1.44269504F;

inline float attention_scale(const attention_shape& a) {
  return 1 / std::sqrt(static_cast<float>(a.head_width));
}

/// The blocks for all heads; heads are the first axis, so that tiles of the same length run together.
template <class Tile>
dim3 attention_grid(const attention_shape& a) {
  return {static_cast<unsigned>(a.batch * a.heads),
          static_cast<unsigned>((a.window + Tile::rows - 1) / Tile::rows)};
}

template <class Tile, class... T>
attention_heads heads_of(const attention_shape& a, const T*... arrays) {
  return {a, a.head_width % Tile::pack::size == 0 && are_packs(arrays...)};
}

} // namespace mailgrad::cuda
