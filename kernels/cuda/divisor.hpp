#pragma once

#include <mailgrad/kernels/functors/host_device.hpp>

#include <bit>
#include <cstdint>

namespace mailgrad::cuda {

/// Divides numbers below 2^31 by a number that all threads share, with one multiplication.
///
/// Source  Granlund & Montgomery, "Division by invariant integers using multiplication", PLDI 1994, for 31
///         bits: with l = ceil(log2 d) and m = ceil(2^(31 + l) / d), floor(n / d) = floor(n m / 2^(31 + l)).
class divisor {
public:
  divisor() = default;
  /// 0 < d < 2^31.
  explicit divisor(std::uint32_t d)
      : d_(d), shift_(31 + static_cast<std::uint32_t>(std::bit_width(d - 1))),
        factor_(static_cast<std::uint32_t>(((std::uint64_t{1} << shift_) + d - 1) / d)) {}

  MAILGRAD_HOST_DEVICE std::uint32_t value() const { return d_; }
  MAILGRAD_HOST_DEVICE std::uint32_t quotient(std::uint32_t n) const {
    return static_cast<std::uint32_t>(std::uint64_t{n} * factor_ >> shift_);
  }
  /// Returns the quotient, and leaves the remainder in `n`.
  MAILGRAD_HOST_DEVICE std::uint32_t divide(std::uint32_t& n) const {
    const std::uint32_t q = quotient(n);
    n -= q * d_;
    return q;
  }

private:
  std::uint32_t d_ = 1, shift_ = 31, factor_ = std::uint32_t{1} << 31;
};

} // namespace mailgrad::cuda
