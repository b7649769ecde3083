#include <mailgrad/kernels/host/convolution/sparse_terms.hpp>

#include <array>
#include <utility>

#ifdef __AVX__
#include <immintrin.h>
#endif

namespace mailgrad {

namespace {

template <std::size_t Packets>
void add_terms(float* sum, std::span<const term> terms, const float* base) {
  simd::vector s[Packets]; // a plain array, since a template argument would lose the type's attributes
#pragma GCC unroll 16
  for (std::size_t i = 0; i < Packets; ++i) s[i] = simd::load(sum + i * packet_size);
  for (const term& t : terms) {
    const float* run = base + t.offset;
#pragma GCC unroll 16
    for (std::size_t i = 0; i < Packets; ++i) s[i] += t.factor * simd::load(run + i * packet_size);
  }
#pragma GCC unroll 16
  for (std::size_t i = 0; i < Packets; ++i) simd::store(sum + i * packet_size, s[i]);
}

template <std::size_t... Packets>
constexpr std::array<add_terms_function, sizeof...(Packets)> table(std::index_sequence<Packets...>) {
  return {add_terms<Packets + 1>...};
}

/// The bits of filled_mask() for eight values.
std::uint64_t byte_of_mask(const float* values) noexcept {
#ifdef __AVX__
  const __m256 filled = _mm256_cmp_ps(_mm256_loadu_ps(values), _mm256_setzero_ps(), _CMP_NEQ_UQ);
  return static_cast<std::uint64_t>(_mm256_movemask_ps(filled));
#else
  std::uint64_t mask = 0;
  for (std::size_t k = 0; k < 8; ++k) mask |= std::uint64_t{values[k] != 0.0F} << k;
  return mask;
#endif
}

} // namespace

std::uint64_t filled_mask(const float* values, std::size_t n) noexcept {
  std::uint64_t mask = 0;
  std::size_t k = 0;
  for (; k + 8 <= n; k += 8) mask |= byte_of_mask(values + k) << k;
  for (; k < n; ++k) mask |= std::uint64_t{values[k] != 0.0F} << k;
  return mask;
}

add_terms_function add_terms_of(std::size_t packets) noexcept {
  static constexpr auto by_packets = table(std::make_index_sequence<max_packets>());
  return by_packets[packets - 1];
}

} // namespace mailgrad
