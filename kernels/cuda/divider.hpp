#pragma once

#include <mailgrad/kernels/functors/host_device.hpp>
#include <mailgrad/tensor/stream.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>

namespace mailgrad::cuda {

/// Divides numbers of a kernel by an extent. `Index` is std::uint32_t for dividends below 2^31, where a
/// division is a product and a shift; otherwise it is std::size_t.
template <class Index>
class divider {
public:
  divider() = default;
  explicit divider(std::size_t by) : by_(by) {}
  MAILGRAD_HOST_DEVICE Index operator()(Index x) const { return x / by_; }
  MAILGRAD_HOST_DEVICE Index by() const { return by_; }

private:
  Index by_;
};

/// Source  Granlund & Montgomery, "Division by invariant integers using multiplication", PLDI 1994, figure
///         4.1.
template <>
class divider<std::uint32_t> {
public:
  divider() = default;
  explicit divider(std::size_t by)
      : by_(static_cast<std::uint32_t>(by)), shift_(static_cast<std::uint32_t>(std::bit_width(by - 1))),
        factor_(static_cast<std::uint32_t>(
            ((std::uint64_t{1} << 32) * ((std::uint64_t{1} << shift_) - by)) / by + 1)) {}
  MAILGRAD_HOST_DEVICE std::uint32_t operator()(std::uint32_t x) const {
    const auto high = static_cast<std::uint32_t>((std::uint64_t{x} * factor_) >> 32);
    return (high + x) >> shift_;
  }
  MAILGRAD_HOST_DEVICE std::uint32_t by() const { return by_; }
  /// Returns the quotient, and leaves the remainder in `x`.
  MAILGRAD_HOST_DEVICE std::uint32_t divide(std::uint32_t& x) const {
    const std::uint32_t quotient = (*this)(x);
    x -= quotient * by_;
    return quotient;
  }

private:
  std::uint32_t by_, shift_, factor_;
};

/// Whether kernels on `s` number so many elements for divider<std::uint32_t>.
inline bool fits_32_bits(const cuda_stream& s, std::size_t n) { return n <= s.most_in_32_bits; }

} // namespace mailgrad::cuda
