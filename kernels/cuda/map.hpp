#pragma once

#include <mailgrad/kernels/cuda/packs.hpp>

#include <algorithm>
#include <span>
#include <utility>

namespace mailgrad::cuda {

/// The arrays of a function of single elements, as arguments of its kernel.
template <class F>
struct mapped_arrays {
  const float* reads[F::reads + 1]; // one more, since F may read none
  float* writes[F::writes];
};

/// One pack of each array.
template <class F>
struct mapped_packs {
  float_pack reads[F::reads + 1];
  float_pack writes[F::writes];
};

/// Packs of a thread; a function of many arrays has enough under way with one.
template <class F>
inline constexpr unsigned packs_of_map = F::reads + F::writes > 3 ? 1 : 2;

template <class F, std::size_t... i, std::size_t... o>
__device__ void call_map(const F& f, mapped_packs<F>& x, std::index_sequence<i...>,
                         std::index_sequence<o...>) {
#pragma unroll
  for (unsigned k = 0; k < float_pack::size; ++k) f(x.reads[i].v[k]..., x.writes[o].v[k]...);
}

/// What a function overwrites unread is not loaded: the compiler sees that nothing uses it.
template <class F>
__global__ void map_kernel(F f, mapped_arrays<F> arrays, element_range range) {
  for_packs<packs_of_map<F>>(
      range,
      [&](auto elements) {
        mapped_packs<F> x{};
#pragma unroll
        for (std::size_t i = 0; i != F::reads; ++i) x.reads[i] = elements.load(arrays.reads[i]);
#pragma unroll
        for (std::size_t i = 0; i != F::writes; ++i) x.writes[i] = elements.load(arrays.writes[i]);
        return x;
      },
      [&](auto& loaded) {
#pragma unroll
        for (auto& x : loaded)
          call_map(f, x, std::make_index_sequence<F::reads>{}, std::make_index_sequence<F::writes>{});
      },
      [&](auto elements, const mapped_packs<F>& x) {
#pragma unroll
        for (std::size_t i = 0; i != F::writes; ++i) elements.store(arrays.writes[i], x.writes[i]);
      });
}

/// Calls f(reads[0][k]..., writes[0][k]...) for each k below n. An array that is written may also be read.
///
/// Shapes  reads: F::reads arrays of float32[n]; writes: F::writes of them.
template <class F>
void map(const cuda_stream& s, const char* name, const F& f, std::span<const float* const> reads,
         std::span<float* const> writes, std::size_t n) {
  if (n == 0) return;
  mapped_arrays<F> arrays{};
  std::copy(reads.begin(), reads.end(), arrays.reads);
  std::copy(writes.begin(), writes.end(), arrays.writes);
  bool aligned = true;
  for (const float* x : reads) aligned = aligned && are_packs(x);
  for (const float* x : writes) aligned = aligned && are_packs(x);
  launch(s, name, blocks_of_packs(n, packs_of_map<F>), threads_per_block, 0, map_kernel<F>, f, arrays,
         element_range{n, aligned});
}

} // namespace mailgrad::cuda
