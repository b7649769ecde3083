#pragma once

#include "warp.hpp"

#include <bit>
#include <cstdint>
#include <source_location>

// What a warp does with matrices, by the layouts that NVIDIA's PTX ISA draws for ldmatrix and mma.

namespace mailgrad::simulated_gpu {

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
