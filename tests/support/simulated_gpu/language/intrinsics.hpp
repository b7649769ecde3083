#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

// NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming): the names are those of CUDA

inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }

inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __frcp_rn(float x) { return 1 / x; }
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
// Not contracted with an addition, as on a GPU.
inline float __fmul_rn(float a, float b) {
  volatile float product = a * b;
  return product;
}
inline float __fadd_rn(float a, float b) {
  volatile float sum = a + b;
  return sum;
}
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }

inline int __popc(unsigned x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1; }
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>((std::uint64_t{a} * b) >> 32);
}

// Loads and stores with a hint for the caches.
template <class T>
T __ldg(const T* address) {
  return *address;
}
template <class T>
T __ldcs(const T* address) {
  return *address;
}
template <class T>
T __ldcg(const T* address) {
  return *address;
}
template <class T>
void __stcs(T* address, T value) {
  *address = value;
}
template <class T>
void __stcg(T* address, T value) {
  *address = value;
}

// Threads of a GPU run one at a time, but ThreadSanitizer takes them for threads of the processor, so these
// are atomic there too. As on a GPU, they order nothing else.

namespace mailgrad::simulated_gpu {

/// Replaces the value by change(value); returns what it was.
template <class T, class Change>
T exchange(T* address, Change change) {
  std::atomic_ref shared(*address);
  T old = shared.load(std::memory_order_relaxed);
  while (!shared.compare_exchange_weak(old, change(old), std::memory_order_relaxed)) {
  }
  return old;
}

} // namespace mailgrad::simulated_gpu

template <class T>
T atomicAdd(T* address, std::type_identity_t<T> value) {
  return mailgrad::simulated_gpu::exchange(address, [&](T old) { return static_cast<T>(old + value); });
}
template <class T>
T atomicMax(T* address, std::type_identity_t<T> value) {
  return mailgrad::simulated_gpu::exchange(address, [&](T old) { return std::max(old, value); });
}
template <class T>
T atomicMin(T* address, std::type_identity_t<T> value) {
  return mailgrad::simulated_gpu::exchange(address, [&](T old) { return std::min(old, value); });
}
template <class T>
T atomicOr(T* address, std::type_identity_t<T> value) {
  return mailgrad::simulated_gpu::exchange(address, [&](T old) { return static_cast<T>(old | value); });
}
template <class T>
T atomicExch(T* address, std::type_identity_t<T> value) {
  return std::atomic_ref(*address).exchange(value, std::memory_order_relaxed);
}
template <class T>
T atomicCAS(T* address, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  std::atomic_ref(*address).compare_exchange_strong(expected, value, std::memory_order_relaxed);
  return expected;
}

inline void __threadfence_block() { std::atomic_thread_fence(std::memory_order_seq_cst); }
inline void __threadfence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
inline void __threadfence_system() { std::atomic_thread_fence(std::memory_order_seq_cst); }

// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming)
