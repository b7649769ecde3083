#pragma once

#include <cuda_runtime.h> // the language of kernels; for tests, that of the simulated GPU

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

// How an element-wise kernel shares arrays among its threads. A thread takes packs of four neighbouring
// elements. One instruction moves a pack if all arrays are aligned; otherwise, and at the end of the arrays,
// it moves element by element.
//
// Kernels that are generated at run time include it, too (chain_kernels.hpp), so it includes little.

/// Elements first to first + 3 of arrays that are aligned.
struct whole_pack {
  std::size_t first;

  __device__ static constexpr unsigned size() { return float_pack::size; }
  __device__ float_pack load(const float* x) const { return load_pack(x + first); }
  __device__ void store(float* x, const float_pack& p) const { store_pack(x + first, p); }
};

/// The `count` elements from `first` on; a pack has those first, then zeros.
struct single_elements {
  std::size_t first;
  unsigned count;

  __device__ unsigned size() const { return count; }
  __device__ float_pack load(const float* x) const {
    float_pack p{};
#pragma unroll
    for (unsigned i = 0; i < float_pack::size; ++i)
      if (i < count) p.v[i] = x[first + i];
    return p;
  }
  __device__ void store(float* x, const float_pack& p) const {
#pragma unroll
    for (unsigned i = 0; i < float_pack::size; ++i)
      if (i < count) x[first + i] = p.v[i];
  }
};

/// The extent of element-wise arrays: `n` elements, of which the first `in_packs` are moved four at a time.
struct element_range {
  std::size_t n, in_packs;

  element_range(std::size_t elements, bool aligned)
      : n(elements), in_packs(aligned ? elements / float_pack::size * float_pack::size : 0) {}

  /// Calls f with the four elements from `first` on, or with as many as there are.
  template <class F>
  __device__ void visit(std::size_t first, F f) const {
    if (first < in_packs)
      f(whole_pack{first});
    else if (first < n)
      f(single_elements{first, n - first < float_pack::size ? static_cast<unsigned>(n - first)
                                                            : unsigned{float_pack::size}});
  }
};

/// Gives each thread `packs` packs of the range. It loads all of them before it computes, so that they are
/// under way together: load(elements) returns what compute(all that was loaded) changes and store(elements,
/// loaded) writes.
template <unsigned packs, class Load, class Compute, class Store>
__device__ void for_packs(const element_range& range, Load load, Compute compute, Store store) {
  decltype(load(whole_pack{0})) loaded[packs] = {};
  const std::size_t step = std::size_t{blockDim.x} * float_pack::size;
  const std::size_t first = std::size_t{blockIdx.x} * packs * step + threadIdx.x * float_pack::size;
#pragma unroll
  for (unsigned i = 0; i < packs; ++i)
    range.visit(first + i * step, [&](auto elements) { loaded[i] = load(elements); });
  compute(loaded);
#pragma unroll
  for (unsigned i = 0; i < packs; ++i)
    range.visit(first + i * step, [&](auto elements) { store(elements, loaded[i]); });
}

// What a generated kernel of a chain is made of. Its text includes it, and so does what launches it.

/// The arrays of a chain, by their numbers.
struct chain_arrays {
  const float* inputs[8];
  float* outputs[8];
};

/// The one element of an array, for all elements of the result.
__device__ inline float_pack repeated(const float* x) {
  const float value = x[0];
  return {{value, value, value, value}};
}

/// f of each element.
template <class F>
__device__ float_pack of_each(F f, const float_pack& a) {
  float_pack y;
#pragma unroll
  for (unsigned i = 0; i < float_pack::size; ++i) y.v[i] = f(a.v[i]);
  return y;
}
template <class F>
__device__ float_pack of_each(F f, const float_pack& a, const float_pack& b) {
  float_pack y;
#pragma unroll
  for (unsigned i = 0; i < float_pack::size; ++i) y.v[i] = f(a.v[i], b.v[i]);
  return y;
}

} // namespace mailgrad::cuda
