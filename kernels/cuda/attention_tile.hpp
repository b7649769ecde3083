#pragma once

#include <mailgrad/kernels/attention.hpp>
#include <mailgrad/kernels/cuda/instructions.hpp>
#include <mailgrad/kernels/cuda/row_lanes.hpp>

namespace mailgrad::cuda {

/// How the vectors of one head lie, one for each position of its window.
struct head_layout {
  std::size_t step; ///< numbers from one position to the next
  unsigned window, width;
  bool packs; ///< whether neighbours may be moved 16 bytes at a time
};

template <class T>
struct head_vectors : head_layout {
  const T* values;
};

__device__ inline void put_number(float_pack& p, unsigned i, float x) { p.v[i] = x; }

/// A pack of one of the first `count` vectors, zeros where there is none. Within a tile, offsets have 32
/// bits.
template <class Pack, class T>
__device__ Pack numbers_of(const head_vectors<T>& from, unsigned count, unsigned vector, unsigned number) {
  Pack found{};
  if (vector >= count) return found;
  const T* const at = from.values + (vector * static_cast<unsigned>(from.step) + number);
  if (from.packs) {
    if (number < from.width) found = load_pack(at);
    return found;
  }
#pragma unroll
  for (unsigned i = 0; i < Pack::size; ++i)
    if (number + i < from.width) put_number(found, i, at[i]);
  return found;
}

constexpr unsigned loads_together(unsigned n) {
  unsigned found = 8;
  while (n % found != 0) --found;
  return found;
}

/// Copies packs of `count` vectors to shared memory, of which find(vector, number) has one.
template <class Tile, unsigned count, class Find>
__device__ void copy_vectors(typename Tile::number* workspace, Find find) {
  using pack = typename Tile::pack;
  constexpr unsigned packs = Tile::width / pack::size, turns = count * packs / Tile::threads;
  constexpr unsigned together = loads_together(turns);
  static_assert(count * packs % Tile::threads == 0);
#pragma unroll 1
  for (unsigned turn = 0; turn < turns; turn += together) {
    pack found[together];
#pragma unroll
    for (unsigned t = 0; t < together; ++t) {
      const unsigned k = threadIdx.x + (turn + t) * Tile::threads;
      found[t] = find(k / packs, k % packs * pack::size);
    }
#pragma unroll
    for (unsigned t = 0; t < together; ++t) {
      const unsigned k = threadIdx.x + (turn + t) * Tile::threads;
      *reinterpret_cast<pack*>(workspace + k / packs * Tile::step + k % packs * pack::size) = found[t];
    }
  }
}

/// Begins to copy packs of `count` vectors, of which there are `left`.
template <class Tile, unsigned count>
__device__ void copy_vectors_later(typename Tile::number* workspace,
                                   const head_vectors<typename Tile::number>& from, unsigned left) {
  constexpr unsigned size = Tile::pack::size, packs = Tile::width / size,
                     turns = count * packs / Tile::threads;
  static_assert(count * packs % Tile::threads == 0);
#pragma unroll
  for (unsigned turn = 0; turn < turns; ++turn) {
    const unsigned k = threadIdx.x + turn * Tile::threads, vector = k / packs, number = k % packs * size;
    const bool there = vector < left;
    const unsigned offset = there ? vector * static_cast<unsigned>(from.step) + number : 0;
    copy_later<16>(workspace + vector * Tile::step + number, from.values + offset, there);
  }
}

/// Copies the vectors of `count` positions to shared memory. Those behind the window are zeros. With room for
/// two tiles they are there when wait_for_copies() has returned.
template <class Tile, unsigned count>
__device__ void load_vectors(typename Tile::number* workspace, head_vectors<typename Tile::number> from,
                             unsigned first) {
  const unsigned left = from.window - first;
  from.values += first * from.step;
  const bool whole = from.packs && from.width == Tile::width; // as most are
  if constexpr (Tile::tiles == 2) {
    if (whole) return copy_vectors_later<Tile, count>(workspace, from, left);
  }
  if (whole && left >= count) {
    copy_vectors<Tile, count>(workspace, [&](unsigned vector, unsigned number) {
      return load_pack(from.values + (vector * static_cast<unsigned>(from.step) + number));
    });
  } else {
    copy_vectors<Tile, count>(workspace, [&](unsigned vector, unsigned number) {
      return numbers_of<typename Tile::pack>(from, left, vector, number);
    });
  }
}

/// Copies one float, as load_vectors() copies vectors; zero unless it is there.
template <class Tile>
__device__ void load_number(float* workspace, const float* from, bool there) {
  if constexpr (Tile::tiles == 2)
    copy_later<4>(workspace, from, there);
  else
    *workspace = there ? *from : 0;
}

/// Columns that come tile by tile. load(workspace, position) copies those of a tile from a position on. With
/// room for two tiles, the next is on its way while the block works on one.
template <class Tile, class Load>
class tiles_in_turn {
public:
  /// Begins with the tile at `first`; there are positions up to `end`. Of a tile there are `numbers` in
  /// `workspace`.
  __device__ tiles_in_turn(typename Tile::number* workspace, unsigned numbers, unsigned first, unsigned end,
                           Load load)
      : workspace_(workspace), numbers_(numbers), end_(end), load_(load) {
    if constexpr (Tile::tiles == 2) load_(workspace_, first);
  }

  /// Waits for the tile at `position`, which all threads ask for in turn. It stays until they ask for the
  /// next.
  __device__ typename Tile::number* at(unsigned position) {
    if constexpr (Tile::tiles == 1) {
      __syncthreads(); // the tile before may still be read
      load_(workspace_, position);
      __syncthreads();
      return workspace_;
    }
    wait_for_copies();
    __syncthreads();
    typename Tile::number* const here = workspace_ + second_ * numbers_;
    second_ ^= 1;
    if (position + Tile::columns < end_) load_(workspace_ + second_ * numbers_, position + Tile::columns);
    return here;
  }

private:
  typename Tile::number* workspace_;
  unsigned numbers_, end_, second_ = 0;
  Load load_;
};

// What the kernels of attention share. A block has `rows` positions, say queries, and meets `columns` other
// ones at a time, say keys. It multiplies their vectors pair by pair, makes weights of the products, and
// adds up weighted vectors of the columns. The kernels are the same for tiles in float32, which are here,
// and in bfloat16.
//
// Source  Dao, Fu, Ermon, Rudra & Ré, "FlashAttention", NeurIPS 2022, algorithms 1 and 4, in the order of
//         Dao, "FlashAttention-2", 2023, arXiv:2307.08691. Differs: the gradient in two kernels, of which
//         each adds up what it alone writes.

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

template <class Tile>
struct attention_pairs {
  float v[Tile::thread_rows][Tile::thread_columns];

  __device__ void multiply(const float* rows, const float* columns, const attention_place<Tile>& at) {
#pragma unroll
    for (unsigned i = 0; i < Tile::thread_rows; ++i)
#pragma unroll
      for (unsigned j = 0; j < Tile::thread_columns; ++j) v[i][j] = 0;
#pragma unroll 2
    for (unsigned k = 0; k < Tile::width; k += float_pack::size) {
      float_pack row[Tile::thread_rows];
#pragma unroll
      for (unsigned i = 0; i < Tile::thread_rows; ++i) row[i] = plain_pack(rows + at.row(i) * Tile::step + k);
#pragma unroll
      for (unsigned j = 0; j < Tile::thread_columns; ++j) {
        const float_pack column = plain_pack(columns + at.column(j) * Tile::step + k);
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

  /// Adds the vectors of all columns, each times the weight of its pair. `workspace` is shared memory for
  /// Tile::weights floats. A warp reads only what it has written, so it waits for no other.
  __device__ void add(const attention_pairs<Tile>& weights, const float* columns, float* workspace,
                      const attention_place<Tile>& at) {
#pragma unroll
    for (unsigned part = 0; part < Tile::columns / Tile::part_columns; ++part) {
      __syncwarp(); // the part before may still be read
#pragma unroll
      for (unsigned i = 0; i < Tile::thread_rows; ++i)
#pragma unroll
        for (unsigned j = 0; j < 4; ++j)
          workspace[at.row(i) * Tile::part_step + at.column(j)] = weights.v[i][part * 4 + j];
      __syncwarp();
      add_part(columns + part * Tile::part_columns * Tile::step, workspace, at);
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
  __device__ void add_part(const float* columns, const float* workspace, const attention_place<Tile>& at) {
#pragma unroll 2
    for (unsigned k = 0; k < Tile::part_columns; k += float_pack::size) {
      float_pack weight[Tile::thread_rows];
#pragma unroll
      for (unsigned i = 0; i < Tile::thread_rows; ++i)
        weight[i] = plain_pack(workspace + at.row(i) * Tile::part_step + k);
#pragma unroll
      for (unsigned n = 0; n < float_pack::size; ++n)
#pragma unroll
        for (unsigned m = 0; m < Tile::result_packs; ++m) {
          const float_pack column = plain_pack(columns + (k + n) * Tile::step + at.number(m));
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

// A tile of attention whose products are those of instructions.hpp, of operands in bfloat16. Weights are
// rounded as well before they multiply vectors; sums are float32.

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
