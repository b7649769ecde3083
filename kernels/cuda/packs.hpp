#pragma once

#include <mailgrad/kernels/cuda/elements.hpp>
#include <mailgrad/kernels/cuda/launch.hpp>

/// What element-wise kernels that are compiled with the program have beside elements.hpp.
namespace mailgrad::cuda {

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

/// The blocks that for_packs<packs>() needs for n elements.
inline unsigned blocks_of_packs(std::size_t n, unsigned packs, unsigned threads = threads_per_block) {
  const std::size_t per_block = std::size_t{threads} * packs * float_pack::size;
  return static_cast<unsigned>((n + per_block - 1) / per_block);
}

} // namespace mailgrad::cuda
