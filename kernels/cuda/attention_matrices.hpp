#pragma once

#include <mailgrad/kernels/cuda/attention_tile.hpp>
#include <mailgrad/kernels/cuda/warp_matrices.hpp>

/// A tile of attention whose products are those of warp_matrices.hpp, of operands in bfloat16. Weights are
/// rounded as well before they multiply vectors; sums are float32.
namespace mailgrad::cuda {

__device__ inline void store_pair(float* to, float first, float second) {
  *reinterpret_cast<float2*>(to) = make_float2(first, second);
}
__device__ inline void store_pair(bfloat16* to, float first, float second) {
  *reinterpret_cast<unsigned*>(to) = nearest_pair(first, second);
}

/// A warp has `Matrices` times 16 rows and all columns. With two, each load of columns from shared memory
/// serves twice as many products, which otherwise wait for it. Its threads have pairs as multiply_matrices()
/// gives them: of two rows of each matrix, 8 apart, two columns in every 8. Their weights are the operands of
/// the next product as they are.
template <unsigned Width, unsigned Warps, unsigned Matrices, unsigned Columns>
struct attention_matrices {
  using number = bfloat16;
  using pack = bfloat16_pack;
  static constexpr unsigned width = Width, threads = Warps * warp_size, matrices = Matrices;
  static constexpr unsigned tiles = 2;       ///< of columns that there is room for
  static constexpr unsigned row_threads = 4; ///< that have a row together
  static constexpr unsigned thread_rows = 2 * Matrices, thread_columns = Columns / 4;
  static constexpr unsigned warp_rows = 16 * Matrices, rows = Warps * warp_rows, columns = Columns;
  /// So that eight rows of a matrix lie in different banks.
  static constexpr unsigned step = width + 8;
  static constexpr unsigned vectors_of_rows = rows * step, vectors_of_columns = columns * step;
  static constexpr unsigned weights = 0; ///< which stay where they are
  static_assert(width % 16 == 0 && columns % 16 == 0);
};

template <unsigned Width, unsigned Warps, unsigned Matrices, unsigned Columns>
struct attention_place<attention_matrices<Width, Warps, Matrices, Columns>> {
  using Tile = attention_matrices<Width, Warps, Matrices, Columns>;
  unsigned warp_row, in_warp, lane;

  __device__ attention_place()
      : warp_row(threadIdx.x / warp_size * Tile::warp_rows), in_warp(threadIdx.x % warp_size),
        lane(in_warp % 4) {}
  __device__ unsigned row(unsigned i) const { return warp_row + in_warp / 4 + 8 * i; }
  __device__ unsigned column(unsigned j) const { return j / 2 * 8 + lane * 2 + j % 2; }
};

template <unsigned Width, unsigned Warps, unsigned Matrices, unsigned Columns>
struct attention_pairs<attention_matrices<Width, Warps, Matrices, Columns>> {
  using Tile = attention_matrices<Width, Warps, Matrices, Columns>;
  float v[Tile::thread_rows][Tile::thread_columns];

  __device__ void multiply(const bfloat16* rows, const bfloat16* columns, const attention_place<Tile>& at) {
#pragma unroll
    for (unsigned i = 0; i < Tile::thread_rows; ++i)
#pragma unroll
      for (unsigned j = 0; j < Tile::thread_columns; ++j) v[i][j] = 0;
    const bfloat16* const row = rows + (at.warp_row + at.in_warp % 16) * Tile::step + at.in_warp / 16 * 8;
    const bfloat16* const column =
        columns + (at.in_warp / 16 * 8 + at.in_warp % 8) * Tile::step + at.in_warp / 8 % 2 * 8;
#pragma unroll 2 // all of it would take more registers than a thread has
    for (unsigned k = 0; k < Tile::width; k += 16) {
      unsigned a[Matrices][4];
#pragma unroll
      for (unsigned m = 0; m < Matrices; ++m) load_matrices(a[m], row + m * 16 * Tile::step + k);
#pragma unroll
      for (unsigned j = 0; j < Tile::thread_columns; j += 4) { // 16 columns
        unsigned b[4];
        load_matrices(b, column + j / 4 * 16 * Tile::step + k);
#pragma unroll
        for (unsigned m = 0; m < Matrices; ++m) {
          multiply_matrices(v[2 * m] + j, v[2 * m + 1] + j, a[m], b[0], b[1]);
          multiply_matrices(v[2 * m] + j + 2, v[2 * m + 1] + j + 2, a[m], b[2], b[3]);
        }
      }
    }
  }
};

template <unsigned Width, unsigned Warps, unsigned Matrices, unsigned Columns>
struct attention_rows<attention_matrices<Width, Warps, Matrices, Columns>> {
  using Tile = attention_matrices<Width, Warps, Matrices, Columns>;
  static constexpr unsigned numbers = Width / 4; ///< of a row that a thread has: two in every 8
  float v[Tile::thread_rows][numbers];

  __device__ void add(const attention_pairs<Tile>& weights, const bfloat16* columns, bfloat16*,
                      const attention_place<Tile>& at) {
    const bfloat16* const column = columns + at.in_warp % 16 * Tile::step + at.in_warp / 16 * 8;
#pragma unroll
    for (unsigned j = 0; j < Tile::thread_columns; j += 4) { // 16 columns
      unsigned a[Matrices][4];
#pragma unroll
      for (unsigned m = 0; m < Matrices; ++m) {
        const auto &upper = weights.v[2 * m], &lower = weights.v[2 * m + 1];
        a[m][0] = nearest_pair(upper[j], upper[j + 1]);
        a[m][1] = nearest_pair(lower[j], lower[j + 1]);
        a[m][2] = nearest_pair(upper[j + 2], upper[j + 3]);
        a[m][3] = nearest_pair(lower[j + 2], lower[j + 3]);
      }
#pragma unroll
      for (unsigned n = 0; n < numbers; n += 4) { // 16 numbers
        unsigned b[4];
        load_transposed_matrices(b, column + j / 4 * 16 * Tile::step + n / 4 * 16);
#pragma unroll
        for (unsigned m = 0; m < Matrices; ++m) {
          multiply_matrices(v[2 * m] + n, v[2 * m + 1] + n, a[m], b[0], b[1]);
          multiply_matrices(v[2 * m] + n + 2, v[2 * m + 1] + n + 2, a[m], b[2], b[3]);
        }
      }
    }
  }

  __device__ void scale(unsigned i, float factor) {
#pragma unroll
    for (unsigned n = 0; n < numbers; ++n) v[i][n] *= factor;
  }

  template <class T>
  __device__ void store(T* values, const head_layout& to, unsigned first,
                        const attention_place<Tile>& at) const {
#pragma unroll
    for (unsigned i = 0; i < Tile::thread_rows; ++i) {
      const unsigned position = first + at.row(i);
      if (position >= to.window) continue;
      T* const line = values + position * to.step;
#pragma unroll
      for (unsigned n = 0; n < numbers; n += 2) {
        const unsigned number = n / 2 * 8 + at.lane * 2;
        if (to.packs) {
          if (number < to.width) store_pair(line + number, v[i][n], v[i][n + 1]);
          continue;
        }
        if (number < to.width) store_number(line + number, v[i][n]);
        if (number + 1 < to.width) store_number(line + number + 1, v[i][n + 1]);
      }
    }
  }
};

} // namespace mailgrad::cuda
