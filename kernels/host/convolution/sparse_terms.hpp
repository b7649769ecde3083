#pragma once

#include <mailgrad/kernels/host/vector.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace mailgrad {

/// A value that is not zero, and the offset of the run of floats that it multiplies.
struct term {
  float factor;
  std::uint32_t offset;
};

inline constexpr std::size_t packet_size = simd::width; ///< floats in one vector register
inline constexpr std::size_t max_packets = 12; ///< sums that fit into 16 registers with the other operands

/// sum[0 .. n) += factor * base[offset .. offset + n) for all terms, in their order.
using add_terms_function = void (*)(float* sum, std::span<const term> terms, const float* base);

/// Returns the function for runs of n = packets * packet_size floats, 0 < packets <= max_packets. It keeps
/// the sums in registers.
add_terms_function add_terms_of(std::size_t packets) noexcept;

/// Bit k tells whether values[k] is not zero, for n <= 64 values.
std::uint64_t filled_mask(const float* values, std::size_t n) noexcept;

/// Calls visit(k) for each of n values that is not zero, in order.
template <class Visit>
void for_each_filled(const float* values, std::size_t n, Visit visit) {
  for (std::size_t first = 0; first < n; first += 64)
    for (std::uint64_t left = filled_mask(values + first, std::min<std::size_t>(n - first, 64)); left != 0;
         left &= left - 1)
      visit(first + static_cast<std::size_t>(std::countr_zero(left)));
}

} // namespace mailgrad
