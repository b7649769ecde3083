#include <mailgrad/kernels/encode_signs.hpp>

#include <mailgrad/kernels/host/compensated.hpp>

#include <algorithm>
#include <array>

namespace mailgrad {

namespace {

constexpr std::size_t partial_sums = 16;
constexpr std::size_t group = 64; ///< numbers whose signs are packed together

struct lane_sums {
  std::array<double, partial_sums> negative{}, other{};
  std::array<std::int32_t, partial_sums> negatives{};

  void add(std::size_t lane, float p) {
    negative[lane] += static_cast<double>(p < 0 ? p : 0);
    other[lane] += static_cast<double>(p < 0 ? 0 : p);
    negatives[lane] += p < 0 ? 1 : 0;
  }
  void join() {
    for (std::size_t half = partial_sums / 2; half > 0; half /= 2)
      for (std::size_t lane = 0; lane < half; ++lane) {
        negative[lane] += negative[lane + half];
        other[lane] += other[lane + half];
        negatives[lane] += negatives[lane + half];
      }
  }
};

float mean(double sum, std::size_t count) {
  return count == 0 ? 0 : static_cast<float>(sum / static_cast<double>(count));
}

template <class Residual>
sign_means means_loop(compensated<Residual> values, std::size_t n) {
  lane_sums sums;
  const std::size_t whole = n / partial_sums * partial_sums;
  for (std::size_t i = 0; i < whole; i += partial_sums) {
#pragma omp simd
    for (std::size_t lane = 0; lane < partial_sums; ++lane) sums.add(lane, values(i + lane));
  }
  for (std::size_t i = whole; i < n; ++i) sums.add(i - whole, values(i));
  sums.join();
  const auto negatives = static_cast<std::size_t>(sums.negatives[0]);
  return {mean(sums.negative[0], negatives), mean(sums.other[0], n - negatives)};
}

/// Eight bytes, each 0 or 1, as the bits of one: the product moves byte i to bit 56 + i, and no two sums
/// meet.
std::byte packed(const std::uint8_t* flags) {
  std::uint64_t bytes;
  std::memcpy(&bytes, flags, 8);
  return static_cast<std::byte>(bytes * 0x0102040810204080U >> 56U);
}

template <class Residual>
void encode_loop(compensated<Residual> values, std::size_t n, sign_means means, std::byte* to) {
  for (std::size_t begin = 0; begin < n; begin += group) {
    std::array<std::uint8_t, group> flags{};
    const std::size_t count = std::min(group, n - begin);
#pragma omp simd
    for (std::size_t i = 0; i < count; ++i) {
      const float p = values(begin + i);
      flags[i] = p < 0 ? 0 : 1;
      values.keep(begin + i, p - (p < 0 ? means.negative : means.other));
    }
    for (std::size_t i = 0; i < count; i += 8) to[(begin + i) / 8] = packed(flags.data() + i);
  }
}

} // namespace

sign_means means_of_signs(const stream& s, std::span<const float> x, std::span<const float> residual) {
  return with_compensated(s, "means_of_signs", x, residual,
                          [&](auto values) { return means_loop(values, x.size()); });
}

void encode_signs(const stream& s, std::span<const float> x, std::span<float> residual, sign_means means,
                  std::span<std::byte> to) {
  require_bytes("encode_signs", to.size(), (x.size() + 7) / 8);
  with_compensated(s, "encode_signs", x, residual,
                   [&](auto values) { encode_loop(values, x.size(), means, to.data()); });
}

void decode_signs(const stream& s, std::span<const std::byte> from, sign_means means, std::span<float> to) {
  require_host(s, "decode_signs");
  require_bytes("decode_signs", from.size(), (to.size() + 7) / 8);
  const auto value = [&](std::uint32_t byte, std::size_t bit) {
    return (byte & 1U << bit) != 0 ? means.other : means.negative;
  };
  const std::size_t whole = to.size() / 8;
  for (std::size_t i = 0; i < whole; ++i) {
    const auto byte = static_cast<std::uint32_t>(from[i]);
    float* eight = to.data() + 8 * i;
#pragma omp simd
    for (std::size_t bit = 0; bit < 8; ++bit) eight[bit] = value(byte, bit);
  }
  for (std::size_t i = 8 * whole; i < to.size(); ++i)
    to[i] = value(static_cast<std::uint32_t>(from[whole]), i - 8 * whole);
}

} // namespace mailgrad
