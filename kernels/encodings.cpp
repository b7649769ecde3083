#include <mailgrad/kernels/encodings.hpp>
#include <mailgrad/kernels/host/compensated.hpp>
#include <mailgrad/tensor/small_floats.hpp>

#include <algorithm>
#include <limits>

namespace mailgrad {
namespace {

struct float16_format {
  static constexpr float largest = 65504;
  static std::uint16_t of(float x) { return half_of_float(x); }
  static float value(std::uint16_t bits) { return float_of_half(bits); }
};

struct bfloat16_format {
  static constexpr float largest = 0x1.fep127F;
  static std::uint16_t of(float x) { return bfloat16_of_float(x); }
  static float value(std::uint16_t bits) { return float_of_bfloat16(bits); }
};

/// Infinity and NaN pass unharmed.
template <class Format>
float saturated(float p) {
  const float low = p < -Format::largest ? -Format::largest : p;
  const float between = low > Format::largest ? Format::largest : low;
  return magnitude_bits(p) < bits_of_infinity ? between : p;
}

template <class Format, class Residual>
void encode_loop(compensated<Residual> values, std::size_t n, std::byte* to) {
#pragma omp simd
  for (std::size_t i = 0; i < n; ++i) {
    const float p = values(i);
    const std::uint16_t bits = Format::of(saturated<Format>(p));
    std::memcpy(to + 2 * i, &bits, 2);
    if constexpr (compensated<Residual>::keeps) {
      const float rest = p - Format::value(bits);
      values.keep(i, magnitude_bits(p) < bits_of_infinity ? rest : values.residual[i]);
    }
  }
}

template <class Format>
void encode(const stream& s, std::string_view what, std::span<const float> x, std::span<float> residual,
            std::span<std::byte> to) {
  require_bytes(what, to.size(), 2 * x.size());
  with_compensated(s, what, x, residual,
                   [&](auto values) { encode_loop<Format>(values, x.size(), to.data()); });
}

template <class Format>
void decode(const stream& s, std::string_view what, std::span<const std::byte> from, std::span<float> to) {
  require_host(s, what);
  require_bytes(what, from.size(), 2 * to.size());
  const std::byte* bytes = from.data();
  float* values = to.data();
  const std::size_t n = to.size();
#pragma omp simd
  for (std::size_t i = 0; i < n; ++i) {
    std::uint16_t bits;
    std::memcpy(&bits, bytes + 2 * i, 2);
    values[i] = Format::value(bits);
  }
}

// A magnitude has 31 bits. Each pass counts the numbers by the next of them: the exponent and three bits of
// the fraction first, then ten, and the last ten.
constexpr std::uint32_t first_shift = 20, second_shift = 10;
constexpr std::uint32_t first_bins = 2048, bins = 1024;
constexpr std::size_t first_infinite_bin = bits_of_infinity >> first_shift;
constexpr std::size_t seen_at_once = 64; ///< numbers that are looked at together

/// Two tables that take turns: equal neighbours would wait for each other's sum in one.
template <std::uint32_t Bins>
struct histogram {
  std::array<std::array<std::uint32_t, Bins>, 2> counts{};
  void join() {
    for (std::size_t i = 0; i < Bins; ++i) counts[0][i] += counts[1][i];
  }
  /// The bin that has the k-th largest; k becomes its rank there, from 1.
  std::uint32_t bin_of(std::size_t& k) const {
    std::uint32_t bin = Bins - 1;
    for (; bin > 0 && counts[0][bin] < k; --bin) k -= counts[0][bin];
    return bin;
  }
};

template <class Residual>
void count_all(compensated<Residual> values, std::size_t n, histogram<first_bins>& all) {
  std::array<std::uint32_t, seen_at_once> bits;
  for (std::size_t begin = 0; begin < n; begin += seen_at_once) {
    const std::size_t count = std::min(seen_at_once, n - begin);
#pragma omp simd
    for (std::size_t i = 0; i < count; ++i) bits[i] = magnitude_bits(values(begin + i)) >> first_shift;
    for (std::size_t i = 0; i < count; ++i) ++all.counts[i % 2][bits[i]];
  }
  all.join();
}

/// Counts the numbers that begin with `prefix`, by the ten bits above `shift`.
template <class Residual>
histogram<bins> count_within(compensated<Residual> values, std::size_t n, std::uint32_t prefix,
                             std::uint32_t shift) {
  histogram<bins> within;
  std::array<std::uint32_t, seen_at_once> bits;
  for (std::size_t begin = 0; begin < n; begin += seen_at_once) {
    const std::size_t count = std::min(seen_at_once, n - begin);
    std::uint32_t found = 0;
#pragma omp simd reduction(| : found)
    for (std::size_t i = 0; i < count; ++i) {
      bits[i] = magnitude_bits(values(begin + i)) >> shift;
      found |= bits[i] / bins == prefix ? 1U : 0U;
    }
    if (found == 0) continue;
    for (std::size_t i = 0; i < count; ++i)
      if (bits[i] / bins == prefix) ++within.counts[i % 2][bits[i] % bins];
  }
  within.join();
  return within;
}

template <class Residual>
std::optional<magnitude_cut> cut_loop(compensated<Residual> values, std::size_t n, std::size_t k) {
  histogram<first_bins> all;
  count_all(values, n, all);
  for (std::size_t bin = first_infinite_bin; bin < first_bins; ++bin)
    if (all.counts[0][bin] > 0) return std::nullopt;
  const std::uint32_t first = all.bin_of(k);
  const std::uint32_t second = first * bins + count_within(values, n, first, second_shift).bin_of(k);
  const std::uint32_t third = second * bins + count_within(values, n, second, 0).bin_of(k);
  return magnitude_cut{third, k};
}

/// Writes places and numbers, one behind the other, and no more than there is room for.
class largest_writer {
public:
  largest_writer(magnitude_cut cut, std::span<std::byte> places, std::span<std::byte> numbers)
      : cut_(cut), room_(places.size() / 4), places_(places.data()), numbers_(numbers.data()) {}

  bool takes(float p) {
    const std::uint32_t bits = magnitude_bits(p);
    if (bits < cut_.bits || room_ == 0) return false;
    if (bits > cut_.bits) return true;
    return cut_.ties > 0 && cut_.ties-- > 0;
  }
  void write(std::uint32_t place, float number) {
    std::memcpy(places_, &place, 4);
    std::memcpy(numbers_, &number, 4);
    places_ += 4;
    numbers_ += 4;
    --room_;
  }

private:
  magnitude_cut cut_;
  std::size_t room_;
  std::byte* places_;
  std::byte* numbers_;
};

template <class Residual>
void encode_loop(compensated<Residual> values, std::size_t n, magnitude_cut cut, largest_writer to) {
  std::array<float, seen_at_once> sums;
  for (std::size_t begin = 0; begin < n; begin += seen_at_once) {
    const std::size_t count = std::min(seen_at_once, n - begin);
    std::uint32_t found = 0;
#pragma omp simd reduction(| : found)
    for (std::size_t i = 0; i < count; ++i) {
      sums[i] = values(begin + i);
      values.keep(begin + i, sums[i]);
      found |= magnitude_bits(sums[i]) >= cut.bits ? 1U : 0U;
    }
    if (found == 0) continue;
    for (std::size_t i = 0; i < count; ++i)
      if (to.takes(sums[i])) {
        to.write(static_cast<std::uint32_t>(begin + i), sums[i]);
        values.keep(begin + i, 0);
      }
  }
}

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

void encode_float16(const stream& s, std::span<const float> x, std::span<float> residual,
                    std::span<std::byte> to) {
  encode<float16_format>(s, "encode_float16", x, residual, to);
}

void encode_bfloat16(const stream& s, std::span<const float> x, std::span<float> residual,
                     std::span<std::byte> to) {
  encode<bfloat16_format>(s, "encode_bfloat16", x, residual, to);
}

void decode_float16(const stream& s, std::span<const std::byte> from, std::span<float> to) {
  decode<float16_format>(s, "decode_float16", from, to);
}

void decode_bfloat16(const stream& s, std::span<const std::byte> from, std::span<float> to) {
  decode<bfloat16_format>(s, "decode_bfloat16", from, to);
}

std::optional<magnitude_cut> cut_of_largest(const stream& s, std::span<const float> x,
                                            std::span<const float> residual, std::size_t k) {
  if (k == 0 || k > x.size()) throw shape_error("cut_of_largest", shape{k}, shape{x.size()});
  if (x.size() > std::numeric_limits<std::uint32_t>::max())
    throw shape_error("cut_of_largest: more numbers than 32 bits can count");
  return with_compensated(s, "cut_of_largest", x, residual,
                          [&](auto values) { return cut_loop(values, x.size(), k); });
}

void encode_largest(const stream& s, std::span<const float> x, std::span<float> residual, magnitude_cut cut,
                    std::span<std::byte> places, std::span<std::byte> numbers) {
  if (places.size() % 4 != 0 || places.size() / 4 > x.size())
    throw shape_error("encode_largest", shape{places.size()}, shape{x.size()});
  require_bytes("encode_largest", numbers.size(), places.size());
  with_compensated(s, "encode_largest", x, residual, [&](auto values) {
    encode_loop(values, x.size(), cut, largest_writer(cut, places, numbers));
  });
}

void decode_largest(const stream& s, std::span<const std::byte> places, std::span<const std::byte> numbers,
                    std::span<float> to) {
  require_host(s, "decode_largest");
  require_bytes("decode_largest", numbers.size(), places.size());
  std::ranges::fill(to, 0.0F);
  for (std::size_t i = 0; i + 4 <= places.size(); i += 4) {
    std::uint32_t place;
    std::memcpy(&place, places.data() + i, 4);
    std::memcpy(&to[place], numbers.data() + i, 4);
  }
}

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
