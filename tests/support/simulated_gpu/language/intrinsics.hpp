#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

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

// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming)
