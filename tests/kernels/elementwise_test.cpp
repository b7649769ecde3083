#include <mailgrad/tests/support/without_cuda.hpp>

#include <mailgrad/kernels/elementwise.hpp>

#include <mailgrad/tensor/block.hpp>
#include <mailgrad/tensor/error.hpp>

#include <Eigen/Core>
#include <gmock/gmock.h>
#include <vector>

namespace mailgrad {
namespace {

using testing::ElementsAre;
using enum elementwise_function;

std::vector<float> uniform_values(std::size_t n, float low, float high) {
  const Eigen::ArrayXf unit = (Eigen::ArrayXf::Random(static_cast<Eigen::Index>(n)) + 1) / 2;
  const Eigen::ArrayXf scaled = low + (high - low) * unit;
  return {scaled.begin(), scaled.end()};
}

std::vector<float> run(elementwise_function f, const std::vector<float>& a, const std::vector<float>& b) {
  elementwise_chain chain;
  chain.input_count = 2;
  chain.step_count = 1;
  chain.steps[0] = {f, 0, 1, 0};
  std::vector<float> y(a.size());
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
  elementwise_chain chain; // t = a + c; u = t * t; both wanted
  chain.input_count = 2;
  chain.inputs[1] = elementwise_chain::extent::one;
  chain.step_count = 3;
  chain.steps[0] = {add, 0, 1, 0};
  chain.steps[1] = {negate, 2, 2, -1};
  chain.steps[2] = {multiply, 3, 2, 1};
  std::vector<float> a(2500), t(2500), u(2500);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i);
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

std::vector<float> spread(const shape& a_dims, const shape& b_dims, const shape& result) {
  std::vector<float> a(a_dims.size()), b(b_dims.size()), y(result.size());
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i);
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
  const std::vector<float> y{1, 0, 2, 0, 3, 4}, dy{1, 2, 3, 4, 5, 6};
  std::vector<float> dz(6), db(2);
  bias_relu_gradient(host_stream{}, y.data(), dy.data(), dz.data(), db.data(), 3, 2);
  EXPECT_THAT(dz, ElementsAre(1, 0, 3, 0, 5, 6));
  EXPECT_THAT(db, ElementsAre(9, 6));
}

TEST(BiasReluGradient, RefusesAGpu) {
  MAILGRAD_SKIP_WITH_CUDA();
  EXPECT_THROW(bias_relu_gradient(cuda_stream{}, nullptr, nullptr, nullptr, nullptr, 0, 0), device_error);
}

} // namespace
} // namespace mailgrad
