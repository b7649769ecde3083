#pragma once

#include <mailgrad/kernels/cuda/launch.hpp>
#include <mailgrad/kernels/functors/elementwise_function.hpp>
#include <mailgrad/tensor/small_floats.hpp>

namespace mailgrad::cuda {

/// What a thread holds of the two operands of a function.
struct operand_packs {
  float_pack a, b;
};

namespace { // one for each source: elementwise.cu is compiled without contraction, broadcast.cu with it

/// Puts f(a, b) in the place of a, for `count` times four elements.
template <unsigned count>
struct apply_to_packs {
  operand_packs (&x)[count];

  template <class Functor>
  MAILGRAD_HOST_DEVICE void operator()(Functor f) const {
    for (unsigned i = 0; i < count; ++i)
      for (unsigned k = 0; k < float_pack::size; ++k) x[i].a.v[k] = apply(f, x[i].a.v[k], x[i].b.v[k]);
  }
};

} // namespace

/// A pack by whatever load nvcc chooses, of shared memory too.
__device__ inline float_pack plain_pack(const float* x) { return *reinterpret_cast<const float_pack*>(x); }

/// One number, or four or eight neighbours that are aligned: what a few instructions move.
template <unsigned size>
struct moved_floats {
  float v[size];
};

template <unsigned size>
__device__ moved_floats<size> load_floats(const float* x) {
  if constexpr (size == 1) {
    return {{x[0]}};
  } else if constexpr (size == 4) {
    const float_pack p = load_pack(x);
    return {{p.v[0], p.v[1], p.v[2], p.v[3]}};
  } else {
    const float_pack a = load_pack(x), b = load_pack(x + 4);
    return {{a.v[0], a.v[1], a.v[2], a.v[3], b.v[0], b.v[1], b.v[2], b.v[3]}};
  }
}

template <unsigned size>
__device__ void store_floats(float* x, const moved_floats<size>& m) {
  if constexpr (size == 1)
    x[0] = m.v[0];
  else
    store_pack(x, {{m.v[0], m.v[1], m.v[2], m.v[3]}});
  if constexpr (size == 8) store_pack(x + 4, {{m.v[4], m.v[5], m.v[6], m.v[7]}});
}

/// The same for shared memory, which has instructions of its own.
template <unsigned size>
__device__ void store_in_block(float* x, const moved_floats<size>& m) {
  if constexpr (size == 1)
    x[0] = m.v[0];
  else
    *reinterpret_cast<float_pack*>(x) = {{m.v[0], m.v[1], m.v[2], m.v[3]}};
}

/// The blocks that for_packs<packs>() needs for n elements.
inline unsigned blocks_of_packs(std::size_t n, unsigned packs, unsigned threads = threads_per_block) {
  const std::size_t per_block = std::size_t{threads} * packs * float_pack::size;
  return static_cast<unsigned>((n + per_block - 1) / per_block);
}

// Numbers of bfloat16 as kernels move them: eight are 16 bytes.

struct alignas(16) bfloat16_pack {
  static constexpr std::size_t size = 8;
  unsigned v[4]; ///< two numbers each, the first in the lower half
};

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

__device__ inline float as_float(float x) { return x; }
__device__ inline float as_float(bfloat16 x) { return float_of_bfloat16(x.bits); }
__device__ inline void store_number(float* to, float x) { *to = x; }
__device__ inline void store_number(bfloat16* to, float x) { to->bits = bfloat16_of_float(x); }

/// One number, four if `x` is a multiple of 8 bytes, or eight.
template <unsigned size>
__device__ moved_floats<size> load_floats(const bfloat16* x) {
  if constexpr (size == 1) {
    return {{as_float(*x)}};
  } else if constexpr (size == 4) {
    const uint2 p = *reinterpret_cast<const uint2*>(x);
    return {{first_of(p.x), second_of(p.x), first_of(p.y), second_of(p.y)}};
  } else {
    const bfloat16_pack p = load_pack(x);
    return {{first_of(p.v[0]), second_of(p.v[0]), first_of(p.v[1]), second_of(p.v[1]), first_of(p.v[2]),
             second_of(p.v[2]), first_of(p.v[3]), second_of(p.v[3])}};
  }
}
template <unsigned size>
__device__ void store_floats(bfloat16* x, const moved_floats<size>& m) {
  if constexpr (size == 1)
    store_number(x, m.v[0]);
  else if constexpr (size == 4)
    *reinterpret_cast<uint2*>(x) = make_uint2(rounded_pair(m.v[0], m.v[1]), rounded_pair(m.v[2], m.v[3]));
  else
    store_rounded(x, bfloat16_pack{{rounded_pair(m.v[0], m.v[1]), rounded_pair(m.v[2], m.v[3]),
                                    rounded_pair(m.v[4], m.v[5]), rounded_pair(m.v[6], m.v[7])}});
}

} // namespace mailgrad::cuda
