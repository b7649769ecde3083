#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <source_location>

// NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming): the names are those of CUDA

namespace mailgrad::simulated_gpu {

/// Waits until each thread of the block has come here.
void block_barrier(std::source_location where);
/// Likewise; returns how many threads came with true.
unsigned block_barrier_count(bool mine, std::source_location where);
/// Waits for the lanes in `mask`, each of which hands in a value for others to read. Only with `ordered` are
/// stores before it seen by loads after it.
void meet_in_warp(unsigned mask, std::uint64_t value, bool ordered, std::source_location where);
/// What `lane` handed in where this lane met it last.
std::uint64_t value_of_lane(unsigned lane);
unsigned own_lane();

template <class T>
std::uint64_t bits_of(T value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "a shuffle moves 4 or 8 bytes");
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

/// Hands in a value, then takes that of `source`, or its own if that is outside of its `width` lanes.
template <class T>
T shuffle(unsigned mask, T value, int source, int width, std::source_location where) {
  meet_in_warp(mask, bits_of(value), false, where);
  const int first = static_cast<int>(own_lane()) / width * width;
  if (source < first || source >= first + width) return value;
  const std::uint64_t bits = value_of_lane(static_cast<unsigned>(source));
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

unsigned ballot(unsigned mask, bool mine, std::source_location where);

// What a warp does with matrices, by the layouts that NVIDIA's PTX ISA draws for ldmatrix and mma.

/// ldmatrix.m8n8.x4: four matrices of 8 x 8 numbers of 16 bits. Lane l gives the address of row l % 8 of
/// matrix l / 8, and gets of each matrix two numbers of row l / 4, or of column l / 4 if it is transposed.
inline void load_matrices(unsigned (&to)[4], const void* row, bool transposed, std::source_location where) {
  meet_in_warp(0xffffffffU, bits_of(row), false, where);
  const unsigned group = own_lane() / 4, first = own_lane() % 4 * 2;
  for (unsigned m = 0; m < 4; ++m) {
    const auto number = [m](unsigned of_row, unsigned column) {
      return unsigned{std::bit_cast<const std::uint16_t*>(value_of_lane(8 * m + of_row))[column]};
    };
    to[m] = transposed ? number(first, group) | number(first + 1, group) << 16U
                       : number(group, first) | number(group, first + 1) << 16U;
  }
}

/// mma.m16n8k16 of bfloat16: C += A B. Lane l has of A rows l / 4 and l / 4 + 8, of B column l / 4, and of C
/// both rows in columns 2 (l % 4) and the next.
class matrix_product {
public:
  matrix_product(const unsigned (&a)[4], unsigned b0, unsigned b1, std::source_location where) {
    const unsigned row = own_lane() / 4 * 4, column = own_lane() % 4 * 8;
    for (unsigned half = 0; half < 2; ++half) {
      meet_in_warp(0xffffffffU, a[2 * half] | std::uint64_t{a[2 * half + 1]} << 32U, false, where);
      for (unsigned q = 0; q < 4; ++q)
        for (unsigned i = 0; i < 2; ++i) take(a_[i], 8 * half + 2 * q, word_of(row + q, i));
    }
    meet_in_warp(0xffffffffU, b0 | std::uint64_t{b1} << 32U, false, where);
    for (unsigned half = 0; half < 2; ++half)
      for (unsigned q = 0; q < 4; ++q)
        for (unsigned j = 0; j < 2; ++j) take(b_[j], 8 * half + 2 * q, word_of(column + 4 * j + q, half));
  }

  /// The sum for one of the two rows and columns of this lane.
  float sum(float c, unsigned row, unsigned column) const {
    for (unsigned k = 0; k < 16; ++k) c += a_[row][k] * b_[column][k];
    return c;
  }

private:
  static unsigned word_of(unsigned lane, unsigned which) {
    return static_cast<unsigned>(value_of_lane(lane) >> 32U * which);
  }
  static void take(float (&to)[16], unsigned k, unsigned pair) {
    to[k] = std::bit_cast<float>(pair << 16U);
    to[k + 1] = std::bit_cast<float>(pair & 0xffff0000U);
  }

  float a_[2][16], b_[2][16];
};

} // namespace mailgrad::simulated_gpu

#define MAILGRAD_HERE std::source_location where = std::source_location::current()

inline void __syncthreads(MAILGRAD_HERE) { mailgrad::simulated_gpu::block_barrier(where); }
inline int __syncthreads_count(int mine, MAILGRAD_HERE) {
  return static_cast<int>(mailgrad::simulated_gpu::block_barrier_count(mine != 0, where));
}
inline int __syncthreads_or(int mine, MAILGRAD_HERE) {
  return mailgrad::simulated_gpu::block_barrier_count(mine != 0, where) != 0;
}
inline int __syncthreads_and(int mine, MAILGRAD_HERE) {
  return mailgrad::simulated_gpu::block_barrier_count(mine == 0, where) == 0;
}
inline void __syncwarp(unsigned mask = 0xffffffffU, MAILGRAD_HERE) {
  mailgrad::simulated_gpu::meet_in_warp(mask, 0, true, where);
}

template <class T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32, MAILGRAD_HERE) {
  const int own = static_cast<int>(mailgrad::simulated_gpu::own_lane());
  return mailgrad::simulated_gpu::shuffle(mask, value, own / width * width + lane % width, width, where);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, unsigned distance, int width = 32, MAILGRAD_HERE) {
  const auto other = static_cast<int>(mailgrad::simulated_gpu::own_lane() ^ distance);
  return mailgrad::simulated_gpu::shuffle(mask, value, other, width, where);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32, MAILGRAD_HERE) {
  const auto other = static_cast<int>(mailgrad::simulated_gpu::own_lane() + distance);
  return mailgrad::simulated_gpu::shuffle(mask, value, other, width, where);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = 32, MAILGRAD_HERE) {
  const int other = static_cast<int>(mailgrad::simulated_gpu::own_lane()) - static_cast<int>(distance);
  return mailgrad::simulated_gpu::shuffle(mask, value, other, width, where);
}
inline unsigned __ballot_sync(unsigned mask, int mine, MAILGRAD_HERE) {
  return mailgrad::simulated_gpu::ballot(mask, mine != 0, where);
}
inline int __any_sync(unsigned mask, int mine, MAILGRAD_HERE) {
  return mailgrad::simulated_gpu::ballot(mask, mine != 0, where) != 0;
}
inline int __all_sync(unsigned mask, int mine, MAILGRAD_HERE) {
  return mailgrad::simulated_gpu::ballot(mask, mine == 0, where) == 0;
}

#undef MAILGRAD_HERE

// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming)
