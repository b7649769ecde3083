#pragma once

#include <mailgrad/kernels/cuda/packs.hpp>
#include <mailgrad/tensor/small_floats.hpp>

/// Numbers of bfloat16 as kernels move them: eight are 16 bytes.
namespace mailgrad::cuda {

struct alignas(16) bfloat16_pack {
  static constexpr std::size_t size = 8;
  unsigned v[4]; ///< two numbers each, the first in the lower half
};

/// Two numbers as they lie in memory.
__device__ inline unsigned rounded_pair(float first, float second) {
  return bfloat16_of_float(first) | static_cast<unsigned>(bfloat16_of_float(second)) << 16U;
}

__device__ inline float first_of(unsigned pair) {
  return float_of_bfloat16(static_cast<std::uint16_t>(pair & 0xffffU));
}
__device__ inline float second_of(unsigned pair) {
  return float_of_bfloat16(static_cast<std::uint16_t>(pair >> 16U));
}

__device__ inline bfloat16_pack load_pack(const bfloat16* x) {
  const uint4 found = *reinterpret_cast<const uint4*>(x);
  return {{found.x, found.y, found.z, found.w}};
}
/// Spelled out for the same reason as store_pack().
__device__ inline void store_rounded(bfloat16* x, const bfloat16_pack& p) {
#ifdef __CUDACC__
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};"
               :
               : "l"(__cvta_generic_to_global(x)), "r"(p.v[0]), "r"(p.v[1]), "r"(p.v[2]), "r"(p.v[3])
               : "memory");
#else
  *reinterpret_cast<uint4*>(x) = make_uint4(p.v[0], p.v[1], p.v[2], p.v[3]);
#endif
}

/// Number `i` of a pack, where there is a 0.
__device__ inline void put_number(bfloat16_pack& p, unsigned i, bfloat16 x) {
  p.v[i / 2] |= unsigned{x.bits} << i % 2 * 16;
}

/// Four numbers, if `x` is a multiple of 8 bytes.
__device__ inline void store_rounded(bfloat16* x, const float_pack& p) {
  *reinterpret_cast<uint2*>(x) = make_uint2(rounded_pair(p.v[0], p.v[1]), rounded_pair(p.v[2], p.v[3]));
}

} // namespace mailgrad::cuda
