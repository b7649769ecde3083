#pragma once

#include <cuda_runtime.h> // the language of kernels; for tests, that of the simulated card

#include <cstddef>

namespace mailgrad::cuda {

/// Four floats that are loaded or stored by one instruction.
struct alignas(16) float_pack {
  static constexpr std::size_t size = 4;
  float v[size];
};

/// One instruction each. A store has to spell its instruction, since nvcc merges plain ones with those of
/// single elements.
__device__ inline float_pack load_pack(const float* x) {
  const float4 found = *reinterpret_cast<const float4*>(x);
  return {{found.x, found.y, found.z, found.w}};
}
__device__ inline void store_pack(float* x, const float_pack& p) {
#ifdef __CUDACC__
  asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};"
               :
               : "l"(__cvta_generic_to_global(x)), "f"(p.v[0]), "f"(p.v[1]), "f"(p.v[2]), "f"(p.v[3])
               : "memory");
#else
  *reinterpret_cast<float4*>(x) = make_float4(p.v[0], p.v[1], p.v[2], p.v[3]);
#endif
}

} // namespace mailgrad::cuda
