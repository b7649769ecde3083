#include <mailgrad/kernels/encode_largest.hpp>

#include <mailgrad/kernels/host/compensated.hpp>

#include <algorithm>
#include <array>
#include <limits>

namespace mailgrad {

namespace {

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

} // namespace

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

} // namespace mailgrad
