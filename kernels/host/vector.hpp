#pragma once

#include <cstddef>
#include <cstring>
#include <utility>

/// Vectors as wide as the registers of the processor compiled for, by the vector types of GCC and Clang.
namespace mailgrad::simd {

#if defined(__AVX512F__)
inline constexpr std::size_t width = 16;
inline constexpr std::size_t registers = 32;
#elif defined(__AVX__)
inline constexpr std::size_t width = 8;
inline constexpr std::size_t registers = 16;
#else
inline constexpr std::size_t width = 4;
inline constexpr std::size_t registers = 16;
#endif

using vector [[gnu::vector_size(width * sizeof(float))]] = float;

inline vector load(const float* from) {
  vector v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

/// Loads the first `count` lanes, fewer than all; the other lanes are 0.
inline vector load_part(const float* from, std::size_t count) {
  vector v{};
  std::memcpy(&v, from, count * sizeof(float));
  return v;
}

inline void store(float* to, const vector& v) { std::memcpy(to, &v, sizeof v); }

/// Whether stores can go past the caches. They can on x86, but not under a sanitizer, which would miss them.
#if defined(__SSE__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
inline constexpr bool passes_caches = true;
#else
inline constexpr bool passes_caches = false;
#endif

/// Stores past the caches where passes_caches is true. The memory is aligned as a vector is. Before another
/// thread reads it, fence_stores() must be called.
inline void store_past_caches(float* to, const vector& v) {
#if !defined(__SSE__) || defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  store(to, v);
#elif defined(__clang__)
  __builtin_nontemporal_store(v, reinterpret_cast<vector*>(to));
#elif defined(__AVX512F__)
  __builtin_ia32_movntps512(to, v);
#elif defined(__AVX__)
  __builtin_ia32_movntps256(to, v);
#else
  __builtin_ia32_movntps(to, v);
#endif
}

/// Makes stores past the caches visible before any later store of this thread.
inline void fence_stores() {
#if defined(__SSE__)
  __builtin_ia32_sfence();
#endif
}

inline constexpr std::size_t cache_line = 16; ///< floats

/// These fetch the cache line of a float: to be read soon, to be read later, or to be overwritten soon. The
/// float need not exist.
inline void prefetch(const float* of) { __builtin_prefetch(of, 0, 3); }
inline void prefetch_to_l2(const float* of) { __builtin_prefetch(of, 0, 2); }
inline void prefetch_to_write(const float* of) { __builtin_prefetch(of, 1, 3); }

namespace detail {

/// Adds to each lane the lane at distance Step, then does the same at half that distance.
template <std::size_t Step, std::size_t... Lane>
vector add_lanes(const vector& v, std::index_sequence<Lane...> lanes) {
  const vector pairs = v + __builtin_shufflevector(v, v, (Lane ^ Step)...);
  if constexpr (Step > 1)
    return add_lanes<Step / 2>(pairs, lanes);
  else
    return pairs;
}

/// Swaps, in rows r[i] and r[i + Step], the Step x Step blocks beside the diagonal.
template <std::size_t Step, std::size_t... Lane>
void swap_blocks(vector& upper, vector& lower, std::index_sequence<Lane...>) {
  const vector a = upper, b = lower;
  upper = __builtin_shufflevector(a, b, (Lane & Step ? width + Lane - Step : Lane)...);
  lower = __builtin_shufflevector(a, b, (Lane & Step ? width + Lane : Lane + Step)...);
}

template <std::size_t Step>
void transpose_from(vector (&rows)[width]) {
  for (std::size_t i = 0; i < width; ++i)
    if ((i & Step) == 0) swap_blocks<Step>(rows[i], rows[i + Step], std::make_index_sequence<width>{});
  if constexpr (Step > 1) transpose_from<Step / 2>(rows);
}

} // namespace detail

inline float sum(const vector& v) {
  return detail::add_lanes<width / 2>(v, std::make_index_sequence<width>{})[0];
}

/// Source  Eklundh, "A fast computer method for matrix transposing", IEEE Trans. Computers 21(7), 1972.
inline void transpose(vector (&rows)[width]) { detail::transpose_from<width / 2>(rows); }

} // namespace mailgrad::simd
