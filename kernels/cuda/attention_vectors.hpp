#pragma once

#include <mailgrad/kernels/cuda/later_copies.hpp>
#include <mailgrad/kernels/cuda/rounded_packs.hpp>

#include <cstddef>

/// How the vectors of attention come from the card's memory to the shared memory of a block.
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

/// The largest divisor of n of at most 8.
constexpr unsigned loads_together(unsigned n) {
  unsigned found = 8;
  while (n % found != 0) --found;
  return found;
}

/// Copies packs of `count` vectors to shared memory, of which find(vector, number) has one.
template <class Tile, unsigned count, class Find>
__device__ void copy_vectors(typename Tile::number* room, Find find) {
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
      *reinterpret_cast<pack*>(room + k / packs * Tile::step + k % packs * pack::size) = found[t];
    }
  }
}

/// Begins to copy packs of `count` vectors, of which there are `left`.
template <class Tile, unsigned count>
__device__ void copy_vectors_later(typename Tile::number* room,
                                   const head_vectors<typename Tile::number>& from, unsigned left) {
  constexpr unsigned size = Tile::pack::size, packs = Tile::width / size,
                     turns = count * packs / Tile::threads;
  static_assert(count * packs % Tile::threads == 0);
#pragma unroll
  for (unsigned turn = 0; turn < turns; ++turn) {
    const unsigned k = threadIdx.x + turn * Tile::threads, vector = k / packs, number = k % packs * size;
    const bool there = vector < left;
    const unsigned offset = there ? vector * static_cast<unsigned>(from.step) + number : 0;
    copy_later<16>(room + vector * Tile::step + number, from.values + offset, there);
  }
}

/// Copies the vectors of `count` positions to shared memory. Those behind the window are zeros. With room for
/// two tiles they are there when wait_for_copies() has returned.
template <class Tile, unsigned count>
__device__ void load_vectors(typename Tile::number* room, head_vectors<typename Tile::number> from,
                             unsigned first) {
  const unsigned left = from.window - first;
  from.values += first * from.step;
  const bool whole = from.packs && from.width == Tile::width; // as most are
  if constexpr (Tile::tiles == 2) {
    if (whole) return copy_vectors_later<Tile, count>(room, from, left);
  }
  if (whole && left >= count) {
    copy_vectors<Tile, count>(room, [&](unsigned vector, unsigned number) {
      return load_pack(from.values + (vector * static_cast<unsigned>(from.step) + number));
    });
  } else {
    copy_vectors<Tile, count>(room, [&](unsigned vector, unsigned number) {
      return numbers_of<typename Tile::pack>(from, left, vector, number);
    });
  }
}

/// Copies one float, as load_vectors() copies vectors; zero unless it is there.
template <class Tile>
__device__ void load_number(float* room, const float* from, bool there) {
  if constexpr (Tile::tiles == 2)
    copy_later<4>(room, from, there);
  else
    *room = there ? *from : 0;
}

/// Columns that come tile by tile. load(room, position) copies those of a tile from a position on. With room
/// for two tiles, the next is on its way while the block works on one.
template <class Tile, class Load>
class tiles_in_turn {
public:
  /// Begins with the tile at `first`; there are positions up to `end`. Of a tile there are `numbers` in
  /// `room`.
  __device__ tiles_in_turn(typename Tile::number* room, unsigned numbers, unsigned first, unsigned end,
                           Load load)
      : room_(room), numbers_(numbers), end_(end), load_(load) {
    if constexpr (Tile::tiles == 2) load_(room_, first);
  }

  /// Waits for the tile at `position`, which all threads ask for in turn. It stays until they ask for the
  /// next.
  __device__ typename Tile::number* at(unsigned position) {
    if constexpr (Tile::tiles == 1) {
      __syncthreads(); // the tile before may still be read
      load_(room_, position);
      __syncthreads();
      return room_;
    }
    wait_for_copies();
    __syncthreads();
    typename Tile::number* const here = room_ + second_ * numbers_;
    second_ ^= 1;
    if (position + Tile::columns < end_) load_(room_ + second_ * numbers_, position + Tile::columns);
    return here;
  }

private:
  typename Tile::number* room_;
  unsigned numbers_, end_, second_ = 0;
  Load load_;
};

} // namespace mailgrad::cuda
