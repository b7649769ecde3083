#include <mailgrad/tensor/fail_with.hpp>
#include <mailgrad/tensor/hogwild_store.hpp>

#include <algorithm>

#if defined(__AVX__) && !defined(__SANITIZE_THREAD__)
#include <immintrin.h>
#define MAILGRAD_VECTOR_MOVES
#endif

namespace mailgrad {
namespace {

#ifdef MAILGRAD_VECTOR_MOVES

// C++ has no relaxed atomics of vectors, and copying one float at a time costs up to a tenth of a training
// step. These functions use instructions instead: a vector move on x86 never tears the aligned floats in it.

constexpr std::size_t vector_size = 8;

void load_vector(const float* shared, float* out) noexcept {
  __m256 v;
  __asm__ volatile("vmovups %1, %0" : "=x"(v) : "m"(*reinterpret_cast<const float(*)[vector_size]>(shared)));
  _mm256_storeu_ps(out, v);
}

void store_vector(float* shared, const float* values) noexcept {
  const __m256 v = _mm256_loadu_ps(values);
  __asm__ volatile("vmovups %1, %0" : "=m"(*reinterpret_cast<float(*)[vector_size]>(shared)) : "x"(v));
}

#else

constexpr std::size_t vector_size = 1;

void load_vector(const float* shared, float* out) noexcept {
  *out = std::atomic_ref{*const_cast<float*>(shared)}.load(std::memory_order_relaxed);
}

void store_vector(float* shared, const float* values) noexcept {
  std::atomic_ref{*shared}.store(*values, std::memory_order_relaxed);
}

#endif

} // namespace

hogwild_store::hogwild_store(std::span<const float> initial)
    : memory_(initial.size_bytes()), values_(memory_.as<float>().data()), size_(initial.size()) {
  std::ranges::copy(initial, values_);
}

void hogwild_store::require(std::size_t first, std::size_t count) const {
  if (first > size_ || count > size_ - first)
    fail_with<shape_error>("hogwild store: {} weights from {} on, where it holds {}", count, first, size_);
}

void hogwild_store::load(std::size_t first, std::span<float> out) const {
  require(first, out.size());
  const std::size_t whole = out.size() / vector_size * vector_size;
  for (std::size_t i = 0; i < whole; i += vector_size) load_vector(values_ + first + i, out.data() + i);
  for (std::size_t i = whole; i < out.size(); ++i)
    out[i] = std::atomic_ref{values_[first + i]}.load(std::memory_order_relaxed);
}

void hogwild_store::store(std::size_t first, std::span<const float> values) {
  require(first, values.size());
  const std::size_t whole = values.size() / vector_size * vector_size;
  for (std::size_t i = 0; i < whole; i += vector_size) store_vector(values_ + first + i, values.data() + i);
  for (std::size_t i = whole; i < values.size(); ++i)
    std::atomic_ref{values_[first + i]}.store(values[i], std::memory_order_relaxed);
}

void hogwild_store::count_elsewhere(std::uint64_t updates) noexcept {
  std::uint64_t most = elsewhere_.load(std::memory_order_relaxed);
  while (most < updates && !elsewhere_.compare_exchange_weak(most, updates, std::memory_order_relaxed)) {
  }
}

} // namespace mailgrad
