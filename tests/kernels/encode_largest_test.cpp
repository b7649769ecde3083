#include <mailgrad/kernels/encodings.hpp>

#include <mailgrad/tests/kernels/host_stream.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace mailgrad {
namespace {

using testing::host;
using bytes = std::vector<std::byte>;
using floats = std::vector<float>;
using places = std::vector<std::uint32_t>;

struct message {
  places where;
  floats values;
  floats decoded;
};

message encoded(const floats& x, std::span<float> residual, std::size_t k) {
  const auto cut = cut_of_largest(host, x, residual, k);
  EXPECT_TRUE(cut);
  bytes where(4 * k), values(4 * k);
  encode_largest(host, x, residual, *cut, where, values);
  message m{places(k), floats(k), floats(x.size(), 7)};
  std::memcpy(m.where.data(), where.data(), where.size());
  std::memcpy(m.values.data(), values.data(), values.size());
  decode_largest(host, where, values, m.decoded);
  return m;
}

/// The places of the k largest, of equals the first, in ascending order.
places by_sorting(const floats& x, std::size_t k) {
  places all(x.size());
  std::iota(all.begin(), all.end(), 0U);
  std::ranges::stable_sort(all, std::greater<>(), [&](std::uint32_t i) { return std::abs(x[i]); });
  all.resize(k);
  std::ranges::sort(all);
  return all;
}

void expect_as_by_sorting(const floats& x, const floats& residual, std::size_t k) {
  floats sums(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) sums[i] = x[i] + residual[i];
  floats rest = residual;
  const message m = encoded(x, rest, k);
  ASSERT_EQ(m.where, by_sorting(sums, k)) << k << " of " << x.size();
  floats left = sums, decoded(x.size());
  for (std::size_t i = 0; i < k; ++i) {
    ASSERT_EQ(m.values[i], sums[m.where[i]]);
    decoded[m.where[i]] = sums[m.where[i]];
    left[m.where[i]] = 0;
  }
  ASSERT_EQ(m.decoded, decoded);
  ASSERT_EQ(rest, left);
}

TEST(EncodeLargest, FindsAtEverySizeWhatSortingFinds) {
  std::mt19937_64 rng(1);
  std::normal_distribution<float> normal(0, 1);
  for (std::size_t n = 1; n < 140; ++n) {
    floats x(n), residual(n);
    for (float& v : x) v = normal(rng);
    for (float& v : residual) v = normal(rng);
    for (const std::size_t k : {std::size_t{1}, (n + 1) / 2, n}) expect_as_by_sorting(x, residual, k);
  }
}

/// The large ones lie where no sample looks, or only there.
TEST(EncodeLargest, FindsThemWhereverTheyLie) {
  std::mt19937_64 rng(3);
  std::normal_distribution<float> normal(0, 1);
  floats even(20'000), hidden(20'000), seen(20'000);
  for (std::size_t i = 0; i < even.size(); ++i) {
    even[i] = normal(rng);
    hidden[i] = normal(rng) * (i / 64 % 32 == 0 ? 1e-3F : 1.0F);
    seen[i] = normal(rng) * (i / 64 % 32 == 0 ? 1.0F : 1e-3F);
  }
  for (const floats& x : {even, hidden, seen})
    for (const std::size_t k : {1U, 20U, 200U, 2000U, 19'999U}) expect_as_by_sorting(x, floats(x.size()), k);
}

TEST(EncodeLargest, TakesTheFirstOfEquals) {
  std::mt19937_64 rng(2);
  for (std::size_t n = 1; n < 300; n += 13) {
    floats x(n);
    for (float& v : x)
      v = static_cast<float>(static_cast<int>(rng() % 5) - 2); // ties of both signs, and zeros
    for (std::size_t k = 1; k <= n; k += 3) expect_as_by_sorting(x, floats(n), k);
  }
}

TEST(EncodeLargest, TellsNeighboursApart) {
  floats x(200);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] =
        std::bit_cast<float>(std::bit_cast<std::uint32_t>(1.0F) + static_cast<std::uint32_t>(i * 37 % 200)) *
        (i % 2 == 0 ? 1.0F : -1.0F);
  for (const std::size_t k : {1U, 17U, 100U, 199U}) expect_as_by_sorting(x, floats(x.size()), k);
}

TEST(EncodeLargest, FindsSubnormalsAndTheLargestFloat) {
  constexpr float least = std::numeric_limits<float>::denorm_min();
  const floats x{least, -3 * least, 0, std::numeric_limits<float>::lowest(), 2 * least};
  for (const std::size_t k : {1U, 2U, 3U, 4U, 5U}) expect_as_by_sorting(x, floats(x.size()), k);
}

TEST(EncodeLargest, FindsNothingAmongWhatIsNotFinite) {
  for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()})
    for (std::size_t i = 0; i < 130; ++i) {
      floats x(130, 1);
      x[i] = bad;
      EXPECT_FALSE(cut_of_largest(host, x, {}, 3));
    }
}

TEST(EncodeLargest, WritesNoMoreThanThereIsRoomForWhateverTheCut) {
  const floats x(100, 1);
  bytes where(12), values(12);
  encode_largest(host, x, {}, {0, 100}, where, values);
  floats decoded(100);
  decode_largest(host, where, values, decoded);
  EXPECT_EQ(std::ranges::count(decoded, 1.0F), 3);
}

TEST(EncodeLargest, RefusesOtherLengths) {
  const floats x(4);
  floats three(3), four(4);
  bytes four_bytes(4), six(6), eight(8), twenty(20);
  testing::expect_refused({
      {"none", [&] { static_cast<void>(cut_of_largest(host, x, four, 0)); }, "cut_of_largest: 0 against 4"},
      {"more than all", [&] { static_cast<void>(cut_of_largest(host, x, four, 5)); }, "5 against 4"},
      {"another residual", [&] { static_cast<void>(cut_of_largest(host, x, three, 1)); }, "4 against 3"},
      {"half a place", [&] { encode_largest(host, x, four, {}, six, six); }, "encode_largest: 6 against 4"},
      {"more places than numbers", [&] { encode_largest(host, x, four, {}, twenty, twenty); },
       "encode_largest: 20 against 4"},
      {"fewer values", [&] { encode_largest(host, x, four, {}, eight, four_bytes); }, "4 against 8"},
      {"fewer to read", [&] { decode_largest(host, eight, four_bytes, four); }, "4 against 8"},
  });
}

} // namespace
} // namespace mailgrad
