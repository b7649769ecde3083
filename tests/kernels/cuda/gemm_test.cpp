#include "../../support/gpu_test.hpp"

#include <mailgrad/kernels/gemm.hpp>
#include <mailgrad/tensor/block.hpp>
#include <mailgrad/tensor/error.hpp>

#include <deque>

namespace mailgrad {
namespace {

using testing::bfloat16_bits, testing::floats_of, testing::gpu_array, testing::numbers_at,
    testing::shifted_array;

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
  static std::vector<float> plus_bias(std::vector<float> y, const std::vector<float>& bias) {
    for (std::size_t i = 0; i < y.size(); ++i) y[i] += bias[i % bias.size()];
    return y;
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
  const auto a = numbers(g.m * g.k, 0.7F), b = numbers(g.k * g.n, 1.9F), bias = numbers(g.n, 0.3F);
  const shifted_array<float> on_a(queue(), a, 1), on_b(queue(), b, 1), on_bias(queue(), bias, 1);
  const auto expected = plus_bias(on_host(g, a, b), bias);
  for (const std::size_t shift : {0U, 1U}) { // of C; the others are shifted
    const shifted_array<float> on_c(queue(), g.m * g.n, shift);
    gemm(gpu(), g, on_a.data(), on_b.data(), on_c.data(), nullptr, next_use::soon, {on_bias.data(), false});
    expect_near(on_c.read(), expected, g.k);
  }
  // The bias alone at an odd float, as it may lie among the weights.
  const auto even_a = array(a), even_b = array(b), even_c = unwritten<float>(g.m * g.n);
  gemm(gpu(), g, even_a.data(), even_b.data(), even_c.data(), nullptr, next_use::soon,
       {on_bias.data(), true});
  queue().finish();
}

/// A product of one queue is prepared once, and what is kept of it must fit the next question.
TEST_F(GpuGemm, MayBeAskedForOnceMoreInAnyOtherWay) {
  constexpr std::size_t k = 24, columns = 32, most = 3;
  const auto a = numbers(most * 16 * k, 0.7F), b = numbers(most * k * columns, 1.9F);
  const std::vector<float> biases[] = {numbers(columns, 0.3F), numbers(columns, 2.3F)};
  const auto on_a = array(a), on_b = array(b);
  const gpu_array<float> on_biases[] = {array(biases[0]), array(biases[1])};
  struct asked {
    std::size_t batch, bias; ///< 2: no bias
    shifted_array<float> c;
  };
  std::deque<asked> all;
  for (int round = 0; round < 2; ++round)
    for (const std::size_t batch : {std::size_t{1}, most})
      for (const std::size_t shift : {0U, 1U})
        for (const std::size_t bias : {2U, 0U, 1U})
          if (batch == 1 || bias == 2) all.push_back({batch, bias, {queue(), batch * 16 * columns, shift}});
  // All are queued before the first is read, so that none may change what another still uses.
  for (const asked& q : all) {
    const gemm_shape g{16, columns, k, operand_order::as_is, operand_order::as_is, q.batch};
    gemm(gpu(), g, on_a.data(), on_b.data(), q.c.data(), nullptr, next_use::soon,
         {q.bias == 2 ? nullptr : on_biases[q.bias].data(), false});
  }
  for (const asked& q : all) {
    SCOPED_TRACE(::testing::Message()
                 << "batch " << q.batch << ", shift " << q.c.shift() << ", bias " << q.bias);
    const gemm_shape g{16, columns, k, operand_order::as_is, operand_order::as_is, q.batch};
    const auto expected = on_host(g, a, b);
    expect_near(q.c.read(), q.bias == 2 ? expected : plus_bias(expected, biases[q.bias]), k);
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
    auto expected = plus_bias(on_host(g, a, b), bias);
    if (relu)
      for (float& y : expected) y = std::max(y, 0.0F);
    expect_near(on_c.read(), expected, g.k);
  }
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
      // A factor, at most 1, is off by half of the last bit of its fraction, or by all of it if the GPU cuts.
      const double most_off = static_cast<double>(g.k) * 2.1 * 0x1p-10;
      for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(found[i], expected[i], most_off) << i;
    }
}

/// The operands are rounded before, so nothing but the order of a sum differs.
TEST_F(GpuGemm, OfBfloat16GivesWhatTheHostGivesForTheRoundedOperands) {
  using enum operand_order;
  for (const operand_order left : {as_is, transposed})
    for (const operand_order right : {as_is, transposed})
      for (const std::size_t batch : {1U, 3U})
        for (const std::size_t shift : {0U, 1U}) {
          const gemm_shape g{7, 5, 33, left, right, batch};
          const auto a = bfloat16_bits(numbers(g.batch * g.m * g.k, 0.7F)),
                     b = bfloat16_bits(numbers(g.batch * g.k * g.n, 1.9F));
          const auto bias = numbers(g.n, 0.3F), rounded_bias = floats_of(bfloat16_bits(bias));
          const std::size_t size = g.batch * g.m * g.n;
          const shifted_array<std::uint16_t> on_a(queue(), a, shift), on_b(queue(), b, shift),
              on_rounded_bias(queue(), bfloat16_bits(bias), 0), on_rounded(queue(), size, 0);
          const auto on_bias = array(bias), on_c = unwritten<float>(size);
          gemm(gpu(), g, numbers_at(on_a), numbers_at(on_b), on_c.data(),
               {.bias = batch == 1 ? on_bias.data() : nullptr});
          auto expected = on_host(g, floats_of(a), floats_of(b));
          if (batch == 1) expected = plus_bias(expected, bias);
          expect_near(on_c.read(), expected, g.k);

          // The same with a result and a bias of bfloat16.
          gemm(gpu(), g, numbers_at(on_a), numbers_at(on_b), numbers_at(on_rounded),
               batch == 1 ? numbers_at(on_rounded_bias) : nullptr);
          const auto found = floats_of(on_rounded.read());
          for (std::size_t i = 0; i < expected.size(); ++i) {
            const float change = batch == 1 ? rounded_bias[i % g.n] - bias[i % g.n] : 0;
            ASSERT_NEAR(found[i], expected[i] + change, 0x1.02p-8F * std::abs(expected[i] + change) + 1e-4F);
          }
        }
  const bfloat16 none{};
  float c = 0;
  const auto on_the_host = [&] { gemm(host_stream{}, gemm_shape{1, 1, 1}, &none, &none, &c); };
  EXPECT_THAT(on_the_host,
              ::testing::ThrowsMessage<device_error>(::testing::HasSubstr("nothing in bfloat16")));
}

} // namespace
} // namespace mailgrad
