#include <mailgrad/graph/program/program_plan.hpp>

#include <mailgrad/graph/gradients.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/tests/support/gradient_check.hpp>

#include <gmock/gmock.h>

#include <cmath>

namespace mailgrad {
namespace {

using test::random_tensor;
using test::run_once;
using test::tensor_of;

using step_function = value (*)(const value&, const value&);

/// Each function a program of its own, so that nothing can be fused.
std::vector<float> one_by_one(const std::vector<step_function>& steps, std::vector<float> y, std::size_t n) {
  const tensor other = random_tensor({n}, 2, 0.5F, 2);
  for (const step_function f : steps) {
    graph g;
    y = run_once(f(g.constant(tensor_of({n}, y)), g.constant(test::copy_of(other))));
  }
  return y;
}

std::vector<float> together(const std::vector<step_function>& steps, std::size_t n, std::size_t& kernels) {
  graph g;
  value y = g.constant(random_tensor({n}, 1));
  const value other = g.constant(random_tensor({n}, 2, 0.5F, 2));
  for (const step_function f : steps) y = f(y, other);
  kernels = program(g, {&y, 1}).kernel_count();
  return run_once(y);
}

TEST(Fusion, GivesTheBitsOfTheSingleFunctions) {
  const std::vector<step_function> steps{[](const value& y, const value& other) { return y * other; },
                                         [](const value& y, const value&) { return tanh(y); },
                                         [](const value& y, const value&) { return y + 0.25F; },
                                         [](const value& y, const value&) { return exp(y); },
                                         [](const value& y, const value& other) { return other / y; },
                                         [](const value& y, const value&) { return gelu(y); }};
  for (const std::size_t n : {1U, 7U, 1000U, 1024U, 1025U, 5000U}) {
    const auto first = random_tensor({n}, 1);
    std::size_t kernels = 0;
    const auto fused = together(steps, n, kernels);
    EXPECT_EQ(kernels, 1U);
    EXPECT_EQ(fused, one_by_one(steps, {first.values().begin(), first.values().end()}, n)) << n;
  }
}

TEST(Fusion, SplitsChainsThatAreTooLong) {
  graph g;
  value y = g.constant(random_tensor({3000}, 1));
  for (int i = 0; i < 20; ++i) y = sigmoid(y);
  const program p(g, {&y, 1});
  EXPECT_EQ(p.kernel_count(), 3U); // 8 + 8 + 4 steps
}

TEST(Fusion, KeepsWhatOthersRead) {
  graph g;
  const value x = g.constant(random_tensor({50, 50}, 1));
  const value y = exp(x), z = square(y), product = matmul(y, z);
  const std::vector<value> fetches{product, y, z};
  test::bound_program fused(fetches, {});
  fused.run(0);
  EXPECT_EQ(fused.fetched(1), run_once(y));
  EXPECT_EQ(fused.fetched(2), run_once(z));
  EXPECT_EQ(program(g, fetches).kernel_count(), 2U);
}

TEST(Fusion, MovesNoResultPastItsReader) {
  graph g;
  const value x = g.constant(random_tensor({20, 20}, 1));
  const value y = tanh(x);
  const value product = matmul(y, y); // reads y before the addition may run
  const value sum = product + y;
  EXPECT_EQ(program(g, std::vector{sum}).kernel_count(), 3U);
  const auto got = run_once(sum), left = run_once(product), right = run_once(y);
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], left[i] + right[i]);
}

TEST(Fusion, JoinsBranchesThatMeet) {
  graph g;
  const value x = g.constant(random_tensor({100}, 1));
  const value sum = exp(x) + tanh(x);
  EXPECT_EQ(program(g, std::vector{sum}).kernel_count(), 1U);
  const auto got = run_once(sum), left = run_once(exp(x)), right = run_once(tanh(x));
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], left[i] + right[i]);
}

TEST(Fusion, LeavesRepeatedOperandsAlone) {
  graph g;
  const value x = g.constant(random_tensor({10, 10}, 1)), row = g.constant(random_tensor({10}, 2));
  EXPECT_EQ(program(g, std::vector{tanh(x + row)}).kernel_count(), 2U);
  EXPECT_EQ(program(g, std::vector{tanh(x + 1)}).kernel_count(), 1U);
}

TEST(Fusion, OverwritesAnOperandThatNoLaterStepReads) {
  graph g;
  const value x = g.constant(random_tensor({40, 40}, 1));
  const value product = matmul(x, x);
  const value y = square(tanh(product));
  const value unsafe = tanh(product) * product + product;
  EXPECT_EQ(program(g, std::vector{y}).arena_bytes(), program(g, std::vector{product}).arena_bytes());
  const auto expected = run_once(product);
  const auto got = run_once(unsafe);
  graph apart;
  const value copy = apart.constant(tensor_of({40, 40}, expected));
  EXPECT_EQ(got, run_once(tanh(copy) * copy + copy));
}

// The chain gives tanh(product) out before its last step reads the product, as its first operand or second.
TEST(Fusion, KeepsAnOperandThatAStepBehindAFetchedResultReads) {
  for (const bool second : {false, true}) {
    graph g;
    const value x = g.constant(random_tensor({40, 40}, 1));
    const value product = matmul(x, x);
    const value midst = tanh(product);
    const value last = second ? square(midst) - product : product - square(midst);
    const std::vector<value> fetches{midst, last};
    ASSERT_EQ(program(g, fetches).kernel_count(), 2U) << "the product, and one chain of the rest";
    test::bound_program p(fetches, {});
    p.run(0);
    const auto expected = run_once(product), first = p.fetched(0), got = p.fetched(1);
    for (std::size_t i = 0; i < got.size(); ++i) {
      const float t = std::tanh(expected[i]);
      ASSERT_NEAR(first[i], t, 1e-6) << i;
      ASSERT_NEAR(got[i], second ? t * t - expected[i] : expected[i] - t * t,
                  1e-6 * (1 + std::abs(expected[i])))
          << i;
    }
  }
}

/// The backward pass of a chain is a chain again.
TEST(Fusion, TakesGradientsToo) {
  graph g;
  const value x = g.variable("x", {33, 31}, initialiser::uniform(-1, 1));
  const value y = sigmoid(tanh(square(x)));
  test::expect_gradients(y, {x}, {}, {.epsilon = 1e-2F, .relative = 5e-3});
  const auto found = gradients(reduce_sum(y), std::vector{x});
  const program p(g, std::vector{*found[0].dense});
  EXPECT_LE(p.kernel_count(), 3U); // forward and backward in one run, the repeated 1 beside it
}

} // namespace
} // namespace mailgrad
