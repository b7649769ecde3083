#pragma once

#include <mailgrad/kernels/functors/host_device.hpp>

#include <cstdint>

namespace mailgrad {

/// Computes four random numbers from a key and a counter, so that they can be drawn in any order.
///
/// Source  Salmon, Moraes, Dror & Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011,
///         Philox4x32-10.
struct philox {
  std::uint32_t key0, key1;
  static constexpr philox of(std::uint64_t seed) { return {low(seed), high(seed)}; }

  struct numbers {
    std::uint32_t x0, x1, x2, x3;
  };

  /// Each number is uniform over all 32-bit numbers.
  MAILGRAD_HOST_DEVICE numbers operator()(numbers counter) const {
    std::uint32_t k0 = key0, k1 = key1;
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t p0 = 0xD2511F53ULL * counter.x0;
      const std::uint64_t p1 = 0xCD9E8D57ULL * counter.x2;
      counter = {static_cast<std::uint32_t>(p1 >> 32) ^ counter.x1 ^ k0, static_cast<std::uint32_t>(p1),
                 static_cast<std::uint32_t>(p0 >> 32) ^ counter.x3 ^ k1, static_cast<std::uint32_t>(p0)};
      k0 += 0x9E3779B9U;
      k1 += 0xBB67AE85U;
    }
    return counter;
  }
  MAILGRAD_HOST_DEVICE numbers operator()(std::uint64_t counter, std::uint64_t step) const {
    return (*this)({low(counter), high(counter), low(step), high(step)});
  }

private:
  MAILGRAD_HOST_DEVICE static constexpr std::uint32_t low(std::uint64_t n) {
    return static_cast<std::uint32_t>(n);
  }
  MAILGRAD_HOST_DEVICE static constexpr std::uint32_t high(std::uint64_t n) {
    return static_cast<std::uint32_t>(n >> 32);
  }
};

} // namespace mailgrad
