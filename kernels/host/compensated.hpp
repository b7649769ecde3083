#pragma once

#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tensor/stream.hpp>

#include <bit>
#include <cstring>

namespace mailgrad {

static_assert(std::endian::native == std::endian::little, "messages hold numbers as this processor does");

/// The numbers that a lossy encoding is made from: x plus the residual of earlier ones, or x alone.
/// `Residual` is float, const float for a loop that only reads, or void for none.
template <class Residual>
struct compensated {
  static constexpr bool keeps = std::is_same_v<Residual, float>;

  const float* x;
  Residual* residual;

  float operator()(std::size_t i) const {
    if constexpr (std::is_void_v<Residual>)
      return x[i];
    else
      return x[i] + residual[i];
  }
  /// `rest` is what of number i has not been sent.
  void keep(std::size_t i, float rest) const {
    if constexpr (keeps) residual[i] = rest;
  }
};

/// Calls f with the compensated numbers.
///
/// Errors  shape_error if there is a residual of another length; device_error for a stream of a GPU.
template <class Residual, class F>
decltype(auto) with_compensated(const stream& s, std::string_view what, std::span<const float> x,
                                std::span<Residual> residual, F f) {
  require_host(s, what);
  if (residual.empty()) return f(compensated<void>{x.data(), nullptr});
  if (x.size() != residual.size()) throw shape_error(what, shape{x.size()}, shape{residual.size()});
  return f(compensated<Residual>{x.data(), residual.data()});
}

inline void require_bytes(std::string_view what, std::size_t found, std::size_t expected) {
  if (found != expected) throw shape_error(what, shape{found}, shape{expected});
}

inline constexpr std::uint32_t bits_of_infinity = 0x7f800000U;

/// The bits of |p|, which are in the order of magnitudes; from bits_of_infinity on p is not finite.
inline std::uint32_t magnitude_bits(float p) { return std::bit_cast<std::uint32_t>(p) & 0x7fffffffU; }

} // namespace mailgrad
