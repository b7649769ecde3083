#pragma once

#include <mailgrad/kernels/cuda/launch.hpp>

#include <type_traits>

/// How an element-wise kernel shares arrays among its threads. A thread takes packs of four neighbouring
/// elements. One instruction moves a pack if all arrays are aligned; otherwise, and at the end of the arrays,
/// it moves element by element.
namespace mailgrad::cuda {

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

/// What a thread holds of the two operands of a function.
struct operand_packs {
  float_pack a, b;
};

/// One float, or four that are aligned: what one instruction moves.
template <unsigned size>
struct moved_floats {
  float v[size];
};

template <unsigned size>
__device__ moved_floats<size> load_floats(const float* x) {
  if constexpr (size == 1) {
    return {{x[0]}};
  } else {
    const float_pack p = load_pack(x);
    return {{p.v[0], p.v[1], p.v[2], p.v[3]}};
  }
}

template <unsigned size>
__device__ void store_floats(float* x, const moved_floats<size>& m) {
  if constexpr (size == 1)
    x[0] = m.v[0];
  else
    store_pack(x, {{m.v[0], m.v[1], m.v[2], m.v[3]}});
}

/// The same for shared memory, which has instructions of its own.
template <unsigned size>
__device__ void store_in_block(float* x, const moved_floats<size>& m) {
  if constexpr (size == 1)
    x[0] = m.v[0];
  else
    *reinterpret_cast<float_pack*>(x) = {{m.v[0], m.v[1], m.v[2], m.v[3]}};
}

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
  std::invoke_result_t<Load, whole_pack> loaded[packs] = {};
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

/// The blocks that for_packs<packs>() needs for n elements.
inline unsigned blocks_of_packs(std::size_t n, unsigned packs, unsigned threads = threads_per_block) {
  const std::size_t per_block = std::size_t{threads} * packs * float_pack::size;
  return static_cast<unsigned>((n + per_block - 1) / per_block);
}

} // namespace mailgrad::cuda
