#include "../../support/gpu_test.hpp"

#include <mailgrad/kernels/elementwise.hpp>
#include <mailgrad/kernels/layer_norm.hpp>
#include <mailgrad/kernels/reduce.hpp>
#include <mailgrad/tensor/error.hpp>

#include <algorithm>
#include <bit>
#include <numeric>

namespace mailgrad {
namespace {

using testing::bfloat16_bits, testing::expect_close, testing::floats_of, testing::normal_values,
    testing::numbers_at;

/// The nearest bfloat16 of a number, by the rounding of the processor's double precision: to even.
float nearest(float x) {
  if (std::isnan(x) || std::isinf(x)) return x;
  int exponent = 0;
  std::frexp(x, &exponent);
  const double last_bit = std::ldexp(1.0, std::max(exponent, -125) - 8);
  const double rounded = std::nearbyint(static_cast<double>(x) / last_bit) * last_bit;
  if (std::abs(rounded) >= 0x1p128) return std::copysign(std::numeric_limits<float>::infinity(), x);
  return std::copysign(static_cast<float>(rounded), x);
}

std::uint32_t bits_of_float(float x) { return std::bit_cast<std::uint32_t>(x); }

class GpuRounding : public testing::gpu_test {
protected:
  testing::gpu_array<std::uint16_t> rounded(const std::vector<float>& x, std::size_t from = 0,
                                            std::size_t to = 0) {
    const auto on_x = array(x);
    auto y = unwritten<std::uint16_t>(x.size() - from + to);
    round_floats(gpu(), on_x.span().subspan(from), reinterpret_cast<bfloat16*>(y.data()) + to);
    queue().finish(); // before x goes
    return y;
  }
};

TEST_F(GpuRounding, GivesEveryBfloat16ItsValueAndBack) {
  std::vector<std::uint16_t> all(65536);
  std::iota(all.begin(), all.end(), std::uint16_t{0});
  const auto x = array(all);
  const auto wide = unwritten<float>(all.size());
  widen_floats(gpu(), {reinterpret_cast<const bfloat16*>(x.data()), all.size()}, wide.data());
  const std::vector<float> values = wide.read();
  for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(bits_of_float(values[i]), i << 16U);
  const auto back = rounded(values).read();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool is_nan = std::isnan(values[i]);
    ASSERT_EQ(back[i], is_nan ? all[i] | 0x40U : all[i]); // a NaN becomes quiet
  }
}

/// Beside each bfloat16: the floats next to it, next to the middle between it and the next, and the middle.
TEST_F(GpuRounding, TakesTheNearestAndOfTwoTheEvenOne) {
  std::vector<float> x;
  for (std::uint32_t upper = 0; upper < 65536; ++upper)
    for (const std::uint32_t lower : {0U, 1U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU})
      x.push_back(std::bit_cast<float>(upper << 16U | lower));
  const auto found = rounded(x).read();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float y = float_of_bfloat16(found[i]);
    if (std::isnan(x[i]))
      ASSERT_TRUE(std::isnan(y) && std::signbit(y) == std::signbit(x[i])) << std::hex << bits_of_float(x[i]);
    else
      ASSERT_EQ(bits_of_float(y), bits_of_float(nearest(x[i]))) << std::hex << bits_of_float(x[i]);
  }
}

TEST_F(GpuRounding, TakesArraysOfAnyLengthAtAnyNumber) {
  for (const std::size_t n : {0U, 1U, 7U, 8U, 9U, 2047U, 4103U})
    for (const std::size_t from : {0U, 1U})
      for (const std::size_t to : {0U, 1U}) {
        std::vector<float> x(n + from);
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
        const auto y = rounded(x, from, to);
        const auto wide = unwritten<float>(n + from);
        widen_floats(gpu(), {reinterpret_cast<const bfloat16*>(y.data()) + to, n}, wide.data() + from);
        const auto bits = y.read();
        const auto values = wide.read();
        for (std::size_t i = 0; i < n; ++i) {
          ASSERT_EQ(bits[i + to], bfloat16_of_float(x[i + from])) << n << ' ' << from << ' ' << to;
          ASSERT_EQ(values[i + from], nearest(x[i + from])) << n << ' ' << from << ' ' << to;
        }
        EXPECT_TRUE(to == 0 || bits[0] == 0) << "written before its beginning";
      }
}

/// The host's have the same bits.
TEST_F(GpuRounding, GivesWhatTheHostGives) {
  std::vector<float> x(70000);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = std::bit_cast<float>(static_cast<std::uint32_t>(i) * 61681);
  std::vector<bfloat16> here(x.size());
  round_floats(host_stream{}, x, here.data());
  std::vector<float> wide(x.size());
  widen_floats(host_stream{}, here, wide.data());
  const auto there = rounded(x).read();
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(there[i], here[i].bits) << i;
    ASSERT_EQ(bits_of_float(wide[i]), std::uint32_t{here[i].bits} << 16U) << i;
  }
}

/// Numbers that bfloat16 has.
std::vector<float> in_bfloat16(const std::vector<float>& x) { return floats_of(bfloat16_bits(x)); }

/// An array of either type on the GPU.
class either_array {
public:
  either_array(cuda::gpu_queue& queue, const std::vector<float>& values, bool rounded, std::size_t shift) {
    if (rounded)
      rounded_.emplace(queue, bfloat16_bits(values), shift);
    else
      floats_.emplace(queue, values, shift);
  }

  read_numbers read_from() const {
    if (floats_) return numbers_at(*floats_);
    return numbers_at(*rounded_);
  }
  written_numbers write_to() const {
    if (floats_) return numbers_at(*floats_);
    return numbers_at(*rounded_);
  }
  std::vector<float> read() const { return floats_ ? floats_->read() : floats_of(rounded_->read()); }

private:
  std::optional<testing::shifted_array<float>> floats_;
  std::optional<testing::shifted_array<std::uint16_t>> rounded_;
};

/// Kernels that are no products, whose operands or results are bfloat16 all the same.
class GpuRoundedValues : public testing::gpu_test {
protected:
  either_array either(const std::vector<float>& values, bool rounded, std::size_t shift = 0) {
    return {queue(), values, rounded, shift};
  }
  either_array unwritten_either(std::size_t n, bool rounded, std::size_t shift) {
    return either(std::vector<float>(n, NAN), rounded, shift);
  }
  /// Rounding to bfloat16 is off by 2^-8 of a number.
  static void expect_rounded(const std::vector<float>& found, const std::vector<float>& expected,
                             float times = 1) {
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      ASSERT_NEAR(found[i], expected[i], times * 0x1.02p-8F * std::abs(expected[i]) + 1e-5F) << i;
  }
};

TEST_F(GpuRoundedValues, OfLayerNormAreThoseOfTheHost) {
  for (const std::size_t width : {5U, 64U, 768U, 1030U})
    for (const std::size_t shift : {0U, 1U}) {
      const layer_norm_rows r{7, width};
      const std::size_t n = r.rows * width;
      const auto x = given(normal_values(n, 1)), gamma = given(normal_values(width, 2)),
                 beta = given(normal_values(width, 3)), dy = given(in_bfloat16(normal_values(n, 4)));
      auto y = wanted(n), mean = wanted(r.rows), inverse = wanted(r.rows), dx = wanted(n),
           dgamma = wanted(width), dbeta = wanted(width);
      const either_array on_y = unwritten_either(n, true, shift), on_dy = either(dy.here, true, shift);
      const auto run = [&](const stream& s, auto at, const written_numbers& to, const read_numbers& from) {
        layer_norm(s, r, at(x), at(gamma), at(beta), to, at(mean), at(inverse));
        layer_norm_gradient(s, r, at(x), at(gamma), at(mean), at(inverse), from, at(dx), at(dgamma),
                            at(dbeta));
      };
      run(
          host_stream{}, [](auto& t) { return t.here.data(); }, y.here.data(), dy.here.data());
      run(
          gpu(), [](auto& t) { return t.there.data(); }, on_y.write_to(), on_dy.read_from());
      expect_rounded(on_y.read(), y.here);
      for (const auto* same : {&mean, &inverse}) expect_close(*same);
      for (const auto* sums : {&dx, &dgamma, &dbeta}) expect_close(*sums, 4);
    }
}

TEST_F(GpuRoundedValues, OfBiasGeluAndItsGradientAreThoseOfTheHost) {
  for (const std::size_t columns : {3U, 40U})
    for (const bool from_rounded : {false, true})
      for (const bool to_rounded : {false, true})
        for (const std::size_t shift : {0U, 1U}) {
          constexpr std::size_t rows = 70;
          const std::size_t n = rows * columns;
          const auto x = in_bfloat16(normal_values(n, 1)), dy = in_bfloat16(normal_values(n, 3));
          const auto b = given(normal_values(columns, 2));
          std::vector<float> y(n), slope(n), dz(n);
          auto db = wanted(columns);
          bias_gelu(host_stream{}, x.data(), b.here.data(), y.data(), slope.data(), rows, columns);
          bias_gelu_gradient(host_stream{}, slope.data(), dy.data(), dz.data(), db.here.data(), rows,
                             columns);
          const auto on_x = either(x, from_rounded, shift), on_dy = either(dy, from_rounded, shift);
          const auto on_y = unwritten_either(n, to_rounded, shift),
                     on_dz = unwritten_either(n, to_rounded, shift),
                     on_slope = unwritten_either(n, to_rounded, shift);
          bias_gelu(gpu(), on_x.read_from(), b.there.data(), on_y.write_to(), on_slope.write_to(), rows,
                    columns);
          bias_gelu_gradient(gpu(), on_slope.read_from(), on_dy.read_from(), on_dz.write_to(),
                             db.there.data(), rows, columns);
          expect_rounded(on_y.read(), y);
          expect_rounded(on_slope.read(), slope);
          expect_rounded(on_dz.read(), dz, to_rounded ? 2 : 1);
          const auto sums = db.there.read();
          for (std::size_t i = 0; i < columns; ++i)
            EXPECT_NEAR(sums[i], db.here[i], 0x1p-8F * std::sqrt(static_cast<float>(rows)) * 4) << i;
        }
}

TEST_F(GpuRoundedValues, AreAddedUpByRows) {
  for (const std::size_t rows : {1U, 31U, 1000U})
    for (const std::size_t columns : {2U, 65U, 300U}) {
      const sum_plan plan = plan_sum({rows, columns}, {true, false});
      ASSERT_TRUE(sums_rows(plan));
      const auto x = in_bfloat16(normal_values(rows * columns, 1));
      auto y = wanted(columns);
      sum(host_stream{}, plan, x.data(), 0.5F, y.here.data());
      const either_array on_x = either(x, true);
      sum(gpu(), plan, on_x.read_from(), 0.5F, y.there.data());
      expect_close(y, std::sqrt(static_cast<float>(rows)) + 1);
    }
  EXPECT_FALSE(sums_rows(plan_sum({4, 5}, {false, true})));
  EXPECT_FALSE(sums_rows(plan_sum({4, 5}, {true, true})));
}

TEST_F(GpuRoundedValues, AreNothingForTheHost) {
  const bfloat16 x{};
  float y = 0;
  EXPECT_THROW(sum(host_stream{}, plan_sum({1, 2}, {true, false}), &x, 1, &y), device_error);
}

} // namespace
} // namespace mailgrad
