#include <mailgrad/kernels/elementwise.hpp>
#include <mailgrad/kernels/functors/philox.hpp>
#include <mailgrad/tensor/block.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tests/support/needs_gpu.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <Eigen/Core>

#include <array>
#include <numeric>
#include <span>

namespace mailgrad {
namespace {

using testing::ElementsAre, testing::expect_refused;
using enum elementwise_function;
using floats = std::vector<float>;

floats uniform_values(std::size_t n, float low, float high) {
  const Eigen::ArrayXf unit = (Eigen::ArrayXf::Random(static_cast<Eigen::Index>(n)) + 1) / 2;
  const Eigen::ArrayXf scaled = low + (high - low) * unit;
  return {scaled.begin(), scaled.end()};
}

floats run(elementwise_function f, const floats& a, const floats& b) {
  const elementwise_chain chain{.steps = {{{f, 0, 1, 0}}}, .input_count = 2, .step_count = 1};
  floats y(a.size());
  const std::array<const void*, 2> inputs{a.data(), b.data()};
  const std::array<void*, 1> outputs{y.data()};
  elementwise(host_stream{}, chain, inputs, outputs, a.size(), nullptr);
  return y;
}

TEST(Elementwise, RunsTheScalarFormulaOfEveryFunction) {
  for (const std::size_t n : {1U, 8U, 13U, 64U})
    for (int name = 0; name <= static_cast<int>(sqrt_gradient); ++name) {
      const auto f = static_cast<elementwise_function>(name);
      const auto a = uniform_values(n, 0.1F, 2), b = uniform_values(n, -2, 2), y = run(f, a, b);
      for (std::size_t i = 0; i < n; ++i) {
        const float expected = with_functor(f, [&](auto functor) { return apply(functor, a[i], b[i]); });
        EXPECT_NEAR(y[i], expected, 2e-6 * (1 + std::abs(expected))) << "function " << name;
      }
    }
}

TEST(Elementwise, AgreesWithEigen) {
  const auto a = uniform_values(1000, 0.1F, 3);
  const Eigen::Map<const Eigen::ArrayXf> x(a.data(), 1000);
  const auto expect = [&](elementwise_function f, const Eigen::ArrayXf& expected) {
    const auto y = run(f, a, a);
    EXPECT_LT((Eigen::Map<const Eigen::ArrayXf>(y.data(), 1000) - expected).abs().maxCoeff(), 4e-6F);
  };
  expect(exp, x.exp());
  expect(log, x.log());
  expect(elementwise_function::tanh, x.tanh());
  expect(square, x.square());
  expect(sqrt, x.sqrt());
  expect(multiply, x * x);
  expect(subtract, x - x);
}

TEST(ElementwiseChain, WritesEveryOutputAndRepeatsSingleNumbers) {
  // t = a + c; u = -t * t; both wanted
  elementwise_chain chain{.steps = {{{add, 0, 1, 0}, {negate, 2, 2, -1}, {multiply, 3, 2, 1}}},
                          .input_count = 2,
                          .step_count = 3};
  chain.inputs[1] = elementwise_chain::extent::one;
  floats a(2500), t(2500), u(2500);
  std::iota(a.begin(), a.end(), 0.0F);
  const float c = 2;
  const std::array<const void*, 2> inputs{a.data(), &c};
  const std::array<void*, 2> outputs{t.data(), u.data()};
  block scratch(chain.scratch_bytes());
  elementwise(host_stream{}, chain, inputs, outputs, a.size(), scratch.data());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(t[i], a[i] + 2);
    EXPECT_EQ(u[i], -(a[i] + 2) * (a[i] + 2));
  }
}

floats spread(const shape& a_dims, const shape& b_dims, const shape& result) {
  floats a(a_dims.size()), b(b_dims.size()), y(result.size());
  std::iota(a.begin(), a.end(), 0.0F);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = 100 * static_cast<float>(i);
  broadcast(host_stream{}, add, plan_broadcast(a_dims, b_dims, result), a.data(), b.data(), y.data());
  return y;
}

TEST(Broadcast, JoinsAxesThatAreWalkedAlike) {
  EXPECT_EQ(plan_broadcast({4, 5, 6}, {4, 5, 6}, {4, 5, 6}).rank, 1U);
  EXPECT_EQ(plan_broadcast({4, 5, 6}, {6}, {4, 5, 6}).rank, 2U);
  EXPECT_EQ(plan_broadcast({4, 5, 6}, {4, 1, 1}, {4, 5, 6}).rank, 2U);
  EXPECT_EQ(plan_broadcast({4, 5, 6}, {4, 1, 6}, {4, 5, 6}).rank, 3U);
  EXPECT_EQ(plan_broadcast({}, {}, {}).rank, 1U);
}

TEST(Broadcast, RepeatsEitherOperand) {
  EXPECT_THAT(spread({2}, {3, 1}, {3, 2}), ElementsAre(0, 1, 100, 101, 200, 201));
  EXPECT_THAT(spread({2, 1}, {2}, {2, 2}), ElementsAre(0, 100, 1, 101));
  EXPECT_THAT(spread({2, 1, 2}, {1, 2, 1}, {2, 2, 2}), ElementsAre(0, 1, 100, 101, 2, 3, 102, 103));
  EXPECT_THAT(spread({0, 2}, {2}, {0, 2}), testing::IsEmpty());
}

TEST(BiasReluGradient, MasksAndSumsInOnePass) {
  const floats y{1, 0, 2, 0, 3, 4}, dy{1, 2, 3, 4, 5, 6};
  floats dz(6), db(2);
  bias_relu_gradient(host_stream{}, y.data(), dy.data(), dz.data(), db.data(), 3, 2);
  EXPECT_THAT(dz, ElementsAre(1, 0, 3, 0, 5, 6));
  EXPECT_THAT(db, ElementsAre(9, 6));
}

TEST(BiasReluGradient, RefusesAGpu) {
  MAILGRAD_SKIP_WITH_CUDA();
  EXPECT_THROW(bias_relu_gradient(cuda_stream{}, nullptr, nullptr, nullptr, nullptr, 0, 0), device_error);
}

TEST(Refusals, OfChainsThatReferToNothing) {
  floats x(4);
  const std::array<const void*, 1> inputs{x.data()};
  const std::array<void*, 1> outputs{x.data()};
  const elementwise_chain one{.steps = {{{copy, 0, 0, 0}}}, .input_count = 1, .step_count = 1};
  const auto expect_refused_with = [&](const char* what, auto change, std::span<const void* const> in,
                                       std::span<void* const> out) {
    elementwise_chain chain = one;
    change(chain);
    expect_refused(what, "elementwise", [&] { elementwise(host_stream{}, chain, in, out, 4, nullptr); });
  };
  const auto as_it_is = [](elementwise_chain&) {};
  expect_refused_with("no inputs", as_it_is, {}, outputs);
  expect_refused_with("no outputs", as_it_is, inputs, {});
  const auto expect_chain_refused = [&](const char* what, auto change) {
    expect_refused_with(what, change, inputs, outputs);
  };
  expect_chain_refused("an operand that comes later", [](auto& c) { c.steps[0].a = 1; });
  expect_chain_refused("an operand that is not there", [](auto& c) { c.steps[0].b = 99; });
  expect_chain_refused("an output that is not there", [](auto& c) { c.steps[0].output = 1; });
  expect_chain_refused("more inputs than a chain has", [](auto& c) { c.input_count = 200; });
  expect_chain_refused("more steps than a chain has", [](auto& c) { c.step_count = 200; });
  const shape dims{2, 3}, three{3}, two{2};
  expect_refused("broadcast: 2x3 against 3", [&] { plan_broadcast(dims, three, three); });
  expect_refused("broadcast: 2 against 3", [&] { plan_broadcast(three, two, three); });
}

floats dropped(const dropout_draw& draw, std::size_t size) {
  const floats x(size, 1);
  floats y(size, 9);
  dropout(host_stream{}, draw, x.data(), y.data(), size);
  return y;
}

std::array<std::uint32_t, 4> numbers_of(const auto& x) { return {x.x0, x.x1, x.x2, x.x3}; }

// Known answers of the authors' Random123 library, file kat_vectors.
TEST(Philox, GivesTheAuthorsNumbers) {
  const philox zero{0, 0}, ones{~0U, ~0U}, pi{0xa4093822U, 0x299f31d0U};
  EXPECT_THAT(numbers_of(zero({0, 0, 0, 0})),
              ElementsAre(0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U));
  EXPECT_THAT(numbers_of(ones({~0U, ~0U, ~0U, ~0U})),
              ElementsAre(0x408f276dU, 0x41c83b0eU, 0xa20bc7c6U, 0x6d5451fdU));
  EXPECT_THAT(numbers_of(pi({0x243f6a88U, 0x85a308d3U, 0x13198a2eU, 0x03707344U})),
              ElementsAre(0xd16cfe09U, 0x94fdccebU, 0x5001e420U, 0x24126ea1U));
}

TEST(Dropout, ScalesWhatItKeeps) {
  for (const float v : dropped({0.75F, 1, 0}, 1000)) EXPECT_TRUE(v == 0 || v == 4) << v;
}

TEST(Dropout, DropsTheShareAskedFor) {
  constexpr std::size_t n = 100'000;
  for (const float rate : {0.1F, 0.5F, 0.9F}) {
    const auto zeros = static_cast<double>(std::ranges::count(dropped({rate, 5, 3}, n), 0.0F));
    const double p = static_cast<double>(rate);
    EXPECT_NEAR(zeros, p * n, 5 * std::sqrt(n * p * (1 - p))) << rate;
  }
}

TEST(Dropout, DrawsTheSameForTheSameSeedAndStep) {
  EXPECT_EQ(dropped({0.5F, 7, 11}, 321), dropped({0.5F, 7, 11}, 321));
}

TEST(Dropout, DrawsAnewForAnotherSeedOrStep) {
  const floats first = dropped({0.5F, 7, 11}, 321);
  EXPECT_NE(first, dropped({0.5F, 7, 12}, 321));
  EXPECT_NE(first, dropped({0.5F, 8, 11}, 321));
  EXPECT_NE(first, dropped({0.5F, 7, 11 + (1ULL << 32)}, 321));
}

TEST(Dropout, DoesNotDependOnHowManyFollow) {
  const floats all = dropped({0.5F, 7, 11}, 321);
  for (const std::size_t size : {0U, 1U, 31U, 32U, 33U, 100U})
    EXPECT_EQ(dropped({0.5F, 7, 11}, size), floats(all.begin(), all.begin() + static_cast<long>(size)));
}

TEST(Dropout, TakesTheNumbersOfPhiloxInAFixedOrder) {
  const floats y = dropped({0.5F, 7, 11}, 64);
  for (std::uint32_t counter = 0; counter < 16; ++counter) {
    const auto numbers = numbers_of(philox{7, 0}({counter, 0, 11, 0}));
    for (std::size_t k = 0; k < 4; ++k)
      EXPECT_EQ(y[counter / 8 * 32 + k * 8 + counter % 8] == 0, numbers[k] < 0x80000000U) << counter;
  }
}

TEST(Dropout, OfNothingKeepsEveryBit) {
  const floats x{0.1F, -3.7F, 1e-30F};
  floats y(3);
  dropout(host_stream{}, {0, 1, 1}, x.data(), y.data(), 3);
  EXPECT_EQ(y, x);
}

TEST(Dropout, WorksInPlace) {
  floats x(100, 1);
  dropout(host_stream{}, {0.5F, 7, 11}, x.data(), x.data(), x.size());
  EXPECT_EQ(x, dropped({0.5F, 7, 11}, 100));
}

TEST(Dropout, HasNoCudaVersion) {
  MAILGRAD_SKIP_WITH_CUDA();
  float v = 0;
  EXPECT_THROW(dropout(cuda_stream{}, {}, &v, &v, 1), device_error);
}

} // namespace
} // namespace mailgrad
