#include "../../support/gpu_test.hpp"

#include <mailgrad/kernels/gemm.hpp>
#include <mailgrad/tensor/block.hpp>
#include <mailgrad/tensor/error.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <vector>

namespace mailgrad {
namespace {

using testing::gpu_array;

class GpuGemm : public testing::gpu_test {
protected:
  static std::vector<float> numbers(std::size_t n, float speed) {
    std::vector<float> values(n);
    for (std::size_t i = 0; i < n; ++i) values[i] = std::sin(speed * static_cast<float>(i));
    return values;
  }
  static std::vector<float> on_host(const gemm_shape& g, const std::vector<float>& a,
                                    const std::vector<float>& b) {
    block scratch(gemm_scratch_bytes(g));
    std::vector<float> c(g.batch * g.m * g.n);
    gemm(host_stream{}, g, a.data(), b.data(), c.data(), scratch.data());
    return c;
  }
  static void expect_near(const std::vector<float>& found, const std::vector<float>& expected,
                          std::size_t k) {
    for (std::size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(found[i], expected[i], 1e-6F * static_cast<float>(k + 10)) << i;
  }
};

TEST_F(GpuGemm, GivesWhatTheHostGives) {
  using enum operand_order;
  for (const operand_order left : {as_is, transposed})
    for (const operand_order right : {as_is, transposed})
      for (const std::size_t batch : {1U, 3U}) {
        const gemm_shape g{7, 5, 33, left, right, batch};
        const auto a = numbers(g.batch * g.m * g.k, 0.7F), b = numbers(g.batch * g.k * g.n, 1.9F);
        const auto on_a = array(a), on_b = array(b), on_c = unwritten<float>(g.batch * g.m * g.n);
        gemm(gpu(), g, on_a.data(), on_b.data(), on_c.data(), nullptr);
        expect_near(on_c.read(), on_host(g, a, b), g.k);
      }
}

TEST_F(GpuGemm, OfNoInnerElementsIsTheBias) {
  const gemm_shape g{3, 2, 0};
  const auto none = unwritten<float>(1), bias = array(std::vector<float>{-1, 4});
  const auto with = [&](const gemm_epilogue& e) {
    const auto c = unwritten<float>(6);
    gemm(gpu(), g, none.data(), none.data(), c.data(), nullptr, next_use::soon, e);
    return c.read();
  };
  EXPECT_EQ(with({}), (std::vector<float>{0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(with({bias.data(), false}), (std::vector<float>{-1, 4, -1, 4, -1, 4}));
  EXPECT_EQ(with({bias.data(), true}), (std::vector<float>{0, 4, 0, 4, 0, 4}));
  EXPECT_EQ(with({nullptr, true}), (std::vector<float>{0, 0, 0, 0, 0, 0}));
}

TEST_F(GpuGemm, TakesOperandsAtAnyFloat) {
  const gemm_shape g{16, 32, 24};
  const auto a = numbers(g.m * g.k + 1, 0.7F), b = numbers(g.k * g.n + 1, 1.9F),
             bias = numbers(g.n + 1, 0.3F);
  const auto on_a = array(a), on_b = array(b), on_bias = array(bias);
  const std::vector<float> a1(a.begin() + 1, a.end()), b1(b.begin() + 1, b.end());
  auto expected = on_host(g, a1, b1);
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += bias[1 + i % g.n];
  for (const std::size_t shift : {0U, 1U}) { // of C; the others are shifted
    const auto on_c = unwritten<float>(g.m * g.n + 1);
    gemm(gpu(), g, on_a.data() + 1, on_b.data() + 1, on_c.data() + shift, nullptr, next_use::soon,
         {on_bias.data() + 1, false});
    const auto read = on_c.read();
    expect_near({read.begin() + static_cast<std::ptrdiff_t>(shift), read.end()}, expected, g.k);
    // The bias alone at an odd float, as it may lie among the weights.
    gemm(gpu(), g, array(a1).data(), array(b1).data(), on_c.data(), nullptr, next_use::soon,
         {on_bias.data() + 1, true});
    queue().finish();
  }
}

/// A product of one queue is prepared once, and what is kept of it must fit the next question.
TEST_F(GpuGemm, MayBeAskedForOnceMoreInAnyOtherWay) {
  constexpr std::size_t k = 24, columns = 32, most = 3;
  const auto a = numbers(most * 16 * k, 0.7F), b = numbers(most * k * columns, 1.9F);
  const std::vector<float> biases[] = {numbers(columns, 0.3F), numbers(columns, 2.3F)};
  const auto on_a = array(a), on_b = array(b);
  const gpu_array<float> on_biases[] = {array(biases[0]), array(biases[1])};
  struct asked {
    std::size_t batch, shift, bias; ///< 2: no bias
    gpu_array<float> c;
  };
  std::deque<asked> all;
  for (int round = 0; round < 2; ++round)
    for (const std::size_t batch : {std::size_t{1}, most})
      for (const std::size_t shift : {0U, 1U})
        for (const std::size_t bias : {2U, 0U, 1U})
          if (batch == 1 || bias == 2)
            all.push_back({batch, shift, bias, unwritten<float>(batch * 16 * columns + shift)});
  // All are queued before the first is read, so that none may change what another still uses.
  for (const asked& q : all) {
    const gemm_shape g{16, columns, k, operand_order::as_is, operand_order::as_is, q.batch};
    gemm(gpu(), g, on_a.data(), on_b.data(), q.c.data() + q.shift, nullptr, next_use::soon,
         {q.bias == 2 ? nullptr : on_biases[q.bias].data(), false});
  }
  for (const asked& q : all) {
    SCOPED_TRACE(::testing::Message() << "batch " << q.batch << ", shift " << q.shift << ", bias " << q.bias);
    const gemm_shape g{16, columns, k, operand_order::as_is, operand_order::as_is, q.batch};
    auto expected = on_host(g, a, b);
    for (std::size_t i = 0; i < expected.size() && q.bias < 2; ++i)
      expected[i] += biases[q.bias][i % columns];
    const auto found = q.c.read();
    expect_near({found.begin() + static_cast<std::ptrdiff_t>(q.shift), found.end()}, expected, k);
  }
}

TEST_F(GpuGemm, LetsNaNThroughItsRelu) {
  const gemm_shape g{2, 4, 1};
  const float nan = std::nanf("");
  const auto a = array(std::vector<float>{nan, 1}), b = array(std::vector<float>{1, -1, 2, -2}),
             bias = array(std::vector<float>(4));
  const auto c = unwritten<float>(8);
  gemm(gpu(), g, a.data(), b.data(), c.data(), nullptr, next_use::soon, {bias.data(), true});
  const auto found = c.read();
  for (std::size_t i = 0; i < 4; ++i) EXPECT_TRUE(std::isnan(found[i])) << i;
  EXPECT_EQ((std::vector<float>{found.begin() + 4, found.end()}), (std::vector<float>{1, 0, 2, 0}));
}

TEST_F(GpuGemm, AddsABiasAndDropsNegatives) {
  const gemm_shape g{6, 9, 20};
  const auto a = numbers(g.m * g.k, 0.7F), b = numbers(g.k * g.n, 1.9F), bias = numbers(g.n, 0.3F);
  const auto on_a = array(a), on_b = array(b), on_bias = array(bias);
  for (const bool relu : {false, true}) {
    const auto on_c = unwritten<float>(g.m * g.n);
    gemm(gpu(), g, on_a.data(), on_b.data(), on_c.data(), nullptr, next_use::soon,
         {.bias = on_bias.data(), .relu = relu});
    auto expected = on_host(g, a, b);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      expected[i] += bias[i % g.n];
      if (relu) expected[i] = std::max(expected[i], 0.0F);
    }
    expect_near(on_c.read(), expected, g.k);
  }
}

/// A factor that is rounded to so many bits of fraction is off by half of the last one, or by all of it if
/// the GPU cuts.
double most_off(float bound_of_a_factor, std::size_t k) {
  return static_cast<double>(k) * 2.1 * static_cast<double>(bound_of_a_factor); // operands are at most 1
}

TEST_F(GpuGemm, InTf32IsNearlyWhatTheHostGives) {
  using enum operand_order;
  cuda::gpu_queue in_tf32(0, product_precision::tf32);
  for (const operand_order left : {as_is, transposed})
    for (const operand_order right : {as_is, transposed}) {
      const gemm_shape g{16, 24, 40, left, right, 2};
      const auto a = numbers(g.batch * g.m * g.k, 0.7F), b = numbers(g.batch * g.k * g.n, 1.9F);
      const gpu_array<float> on_a(in_tf32, a), on_b(in_tf32, b), on_c(in_tf32, g.batch * g.m * g.n);
      gemm(in_tf32.where(), g, on_a.data(), on_b.data(), on_c.data(), nullptr);
      const auto found = on_c.read(), expected = on_host(g, a, b);
      for (std::size_t i = 0; i < expected.size(); ++i)
        ASSERT_NEAR(found[i], expected[i], most_off(0x1p-10F, g.k)) << i;
    }
}

/// The operands are rounded before, so nothing but the order of a sum differs.
TEST_F(GpuGemm, OfBfloat16GivesWhatTheHostGivesForTheRoundedOperands) {
  using enum operand_order;
  const auto bits_of = [](const std::vector<float>& x) {
    std::vector<std::uint16_t> bits;
    for (const float v : x) bits.push_back(bfloat16_of_float(v));
    return bits;
  };
  const auto values_of = [](const std::vector<std::uint16_t>& bits, std::size_t from) {
    std::vector<float> x;
    for (std::size_t i = from; i < bits.size(); ++i) x.push_back(float_of_bfloat16(bits[i]));
    return x;
  };
  for (const operand_order left : {as_is, transposed})
    for (const operand_order right : {as_is, transposed})
      for (const std::size_t batch : {1U, 3U})
        for (const std::size_t shift : {0U, 1U}) {
          const gemm_shape g{7, 5, 33, left, right, batch};
          const auto a = bits_of(numbers(g.batch * g.m * g.k + shift, 0.7F)),
                     b = bits_of(numbers(g.batch * g.k * g.n + shift, 1.9F));
          const auto bias = numbers(g.n, 0.3F);
          const auto on_a = array(a), on_b = array(b);
          const auto on_bias = array(bias), on_c = unwritten<float>(g.batch * g.m * g.n);
          gemm(gpu(), g, reinterpret_cast<const bfloat16*>(on_a.data()) + shift,
               reinterpret_cast<const bfloat16*>(on_b.data()) + shift, on_c.data(),
               {.bias = batch == 1 ? on_bias.data() : nullptr});
          auto expected = on_host(g, values_of(a, shift), values_of(b, shift));
          for (std::size_t i = 0; i < expected.size() && batch == 1; ++i) expected[i] += bias[i % g.n];
          expect_near(on_c.read(), expected, g.k);

          // The same with a result and a bias of bfloat16.
          const auto rounded_bias = bits_of(bias);
          const auto on_rounded_bias = array(rounded_bias),
                     on_rounded = unwritten<std::uint16_t>(expected.size());
          gemm(gpu(), g, reinterpret_cast<const bfloat16*>(on_a.data()) + shift,
               reinterpret_cast<const bfloat16*>(on_b.data()) + shift,
               reinterpret_cast<bfloat16*>(on_rounded.data()),
               batch == 1 ? reinterpret_cast<const bfloat16*>(on_rounded_bias.data()) : nullptr);
          const auto found = values_of(on_rounded.read(), 0);
          for (std::size_t i = 0; i < expected.size(); ++i) {
            const float change = batch == 1 ? float_of_bfloat16(rounded_bias[i % g.n]) - bias[i % g.n] : 0;
            ASSERT_NEAR(found[i], expected[i] + change, 0x1.02p-8F * std::abs(expected[i] + change) + 1e-4F);
          }
        }
  const bfloat16 none{};
  float c = 0;
  EXPECT_THAT(
      [&] {
        gemm(host_stream{}, {1, 1, 1}, &none, &none, &c);
      },
      ::testing::ThrowsMessage<device_error>(::testing::HasSubstr("nothing in bfloat16")));
}

} // namespace
} // namespace mailgrad
