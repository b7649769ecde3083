#include <mailgrad/kernels/host/sparse_terms.hpp>

#include <array>
#include <utility>

namespace mailgrad {

namespace {

using packet [[gnu::vector_size(packet_size * sizeof(float)), gnu::aligned(4), gnu::may_alias]] = float;

template <std::size_t Packets>
void add_terms(float* sum, std::span<const term> terms, const float* base) {
  packet s[Packets]; // no std::array: the attributes of packet are none for a template
#pragma GCC unroll 16
  for (std::size_t i = 0; i < Packets; ++i) s[i] = *reinterpret_cast<const packet*>(sum + i * packet_size);
  for (const term& t : terms) {
    const packet factor = t.factor - packet{};
    const float* run = base + t.offset;
#pragma GCC unroll 16
    for (std::size_t i = 0; i < Packets; ++i)
      s[i] += factor * *reinterpret_cast<const packet*>(run + i * packet_size);
  }
#pragma GCC unroll 16
  for (std::size_t i = 0; i < Packets; ++i) *reinterpret_cast<packet*>(sum + i * packet_size) = s[i];
}

template <std::size_t... Packets>
constexpr std::array<add_terms_function, sizeof...(Packets)> table(std::index_sequence<Packets...>) {
  return {add_terms<Packets + 1>...};
}

} // namespace

add_terms_function add_terms_of(std::size_t packets) noexcept {
  static constexpr auto by_packets = table(std::make_index_sequence<max_packets>());
  return by_packets[packets - 1];
}

} // namespace mailgrad
