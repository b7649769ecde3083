#pragma once

#include <algorithm>
#include <atomic>
#include <type_traits>

// NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming): the names are those of CUDA

// Threads of a GPU run one at a time, but ThreadSanitizer takes them for threads of the processor, so these
//         are atomic there too. As on a GPU, they order nothing else.

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
