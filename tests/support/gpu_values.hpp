#pragma once

#include "gpu_array.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace mailgrad::testing {

/// Normally distributed numbers; the same seed gives the same ones.
inline std::vector<float> normal_values(std::size_t n, std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& value : values) value = normal(rng);
  return values;
}

inline std::vector<std::int32_t> drawn_integers(std::size_t n, std::int32_t last, std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::uniform_int_distribution<std::int32_t> drawn(0, last);
  std::vector<std::int32_t> values(n);
  for (std::int32_t& value : values) value = drawn(rng);
  return values;
}

/// An array whose first element lies `shift` elements behind an address that packs could be read from.
template <class T>
class shifted_array {
public:
  shifted_array(cuda::gpu_queue& queue, std::vector<T> values, std::size_t shift)
      : shift_(shift), all_(queue, (values.insert(values.begin(), shift, T{}), values)) {}
  shifted_array(cuda::gpu_queue& queue, std::size_t n, std::size_t shift)
      : shift_(shift), all_(queue, n + shift) {}

  T* data() const { return all_.data() + shift_; }
  std::vector<T> read() const {
    std::vector<T> values = all_.read();
    values.erase(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(shift_));
    return values;
  }

private:
  std::size_t shift_;
  gpu_array<T> all_;
};

/// How far each of `arrays` arrays is shifted: none of them, then each alone. A kernel that moves packs has
/// to ask for the address of every one.
inline std::vector<std::vector<std::size_t>> one_shifted_of(std::size_t arrays) {
  std::vector<std::vector<std::size_t>> cases(arrays + 1, std::vector<std::size_t>(arrays));
  for (std::size_t i = 0; i < arrays; ++i) cases[i + 1][i] = 1;
  return cases;
}

/// Expects numbers that differ by at most 1e-5 of their size, or of `scale` for those that come from the
/// difference of larger ones.
inline void expect_close(const std::vector<float>& found, const std::vector<float>& expected,
                         float scale = 1) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (std::isnan(expected[i]) && std::isnan(found[i])) continue;
    ASSERT_NEAR(found[i], expected[i], 1e-5F * (scale + std::abs(expected[i]))) << "at " << i;
  }
}

} // namespace mailgrad::testing
