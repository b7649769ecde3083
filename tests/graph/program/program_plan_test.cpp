#include <mailgrad/graph/gradients.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/program/program_plan.hpp>
#include <mailgrad/tests/support/gradient_check.hpp>

#include <random>

namespace mailgrad {
namespace {

using test::random_tensor, test::run_once, test::tensor_of;
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

struct Fusion : test::operation_test {
  std::size_t kernels_for(const std::vector<value>& fetches) const {
    return program(g, fetches).kernel_count();
  }
  value random(const shape& dims, std::uint64_t seed = 1) { return g.constant(random_tensor(dims, seed)); }
};

TEST_F(Fusion, GivesTheBitsOfTheSingleFunctions) {
  const std::vector<step_function> steps{[](const value& y, const value& other) { return y * other; },
                                         [](const value& y, const value&) { return tanh(y); },
                                         [](const value& y, const value&) { return y + 0.25F; },
                                         [](const value& y, const value&) { return exp(y); },
                                         [](const value& y, const value& other) { return other / y; },
                                         [](const value& y, const value&) { return gelu(y); }};
  for (const std::size_t n : {1U, 7U, 1000U, 1024U, 1025U, 5000U}) {
    const value x = random({n}), other = g.constant(random_tensor({n}, 2, 0.5F, 2));
    value y = x;
    for (const step_function f : steps) y = f(y, other);
    EXPECT_EQ(kernels_for({y}), 1U);
    EXPECT_EQ(run_once(y), one_by_one(steps, run_once(x), n)) << n;
  }
}

TEST_F(Fusion, SplitsChainsThatAreTooLong) {
  value y = random({3000});
  for (int i = 0; i < 20; ++i) y = sigmoid(y);
  EXPECT_EQ(kernels_for({y}), 3U); // 8 + 8 + 4 steps
}

TEST_F(Fusion, KeepsWhatOthersRead) {
  const value x = random({50, 50}), y = exp(x), z = square(y), product = matmul(y, z);
  const std::vector<value> fetches{product, y, z};
  test::bound_program fused(fetches, {});
  fused.run(0);
  EXPECT_EQ(fused.fetched(1), run_once(y));
  EXPECT_EQ(fused.fetched(2), run_once(z));
  EXPECT_EQ(kernels_for(fetches), 2U);
}

TEST_F(Fusion, MovesNoResultPastItsReader) {
  const value x = random({20, 20}), y = tanh(x);
  const value product = matmul(y, y); // reads y before the addition may run
  const value sum = product + y;
  EXPECT_EQ(kernels_for({sum}), 3U);
  const auto got = run_once(sum), left = run_once(product), right = run_once(y);
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], left[i] + right[i]);
}

TEST_F(Fusion, JoinsBranchesThatMeet) {
  const value x = random({100}), sum = exp(x) + tanh(x);
  EXPECT_EQ(kernels_for({sum}), 1U);
  const auto got = run_once(sum), left = run_once(exp(x)), right = run_once(tanh(x));
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], left[i] + right[i]);
}

TEST_F(Fusion, LeavesRepeatedOperandsAlone) {
  const value x = random({10, 10}), row = random({10}, 2);
  EXPECT_EQ(kernels_for({tanh(x + row)}), 2U);
  EXPECT_EQ(kernels_for({tanh(x + 1)}), 1U);
}

TEST_F(Fusion, OverwritesAnOperandThatNoLaterStepReads) {
  const value x = random({40, 40}), product = matmul(x, x);
  const value y = square(tanh(product)), unsafe = tanh(product) * product + product;
  EXPECT_EQ(program(g, std::vector{y}).arena_bytes(), program(g, std::vector{product}).arena_bytes());
  const value copy = g.constant(tensor_of({40, 40}, run_once(product)));
  EXPECT_EQ(run_once(unsafe), run_once(tanh(copy) * copy + copy));
}

// The chain gives tanh(product) out before its last step reads the product, as its first operand or second.
TEST_F(Fusion, KeepsAnOperandThatAStepBehindAFetchedResultReads) {
  for (const bool second : {false, true}) {
    const value x = random({40, 40}), product = matmul(x, x);
    const value midst = tanh(product), last = second ? square(midst) - product : product - square(midst);
    const std::vector<value> fetches{midst, last};
    ASSERT_EQ(kernels_for(fetches), 2U) << "the product, and one chain of the rest";
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
TEST_F(Fusion, TakesGradientsToo) {
  const value x = drawn("x", {33, 31}), y = sigmoid(tanh(square(x)));
  test::expect_gradients(y, {x}, {}, {.epsilon = 1e-2F, .relative = 5e-3});
  const auto found = gradients(reduce_sum(y), std::vector{x});
  const program p(g, std::vector{*found[0].dense});
  EXPECT_LE(p.kernel_count(), 3U); // forward and backward in one run, the repeated 1 beside it
}

class JoinedProducts : public ::testing::Test {
protected:
  /// How many kernels fewer a GPU runs than the host.
  std::size_t saved(const std::vector<value>& fetches) const {
    return plan_program(g, fetches, {}).steps.size() -
           plan_program(g, fetches, {}, device_kind::cuda).steps.size();
  }
  std::size_t saved_by_layer(std::size_t batch, std::size_t outputs) {
    const value x = g.input("x", {batch, 3}), w = g.input("w", {3, outputs}), b = g.input("b", {outputs});
    return saved({matmul(x, w) + b});
  }

  graph g;
};

TEST_F(JoinedProducts, AddTheBiasOfALayer) { EXPECT_EQ(saved_by_layer(4, 5), 1U); }
TEST_F(JoinedProducts, AddTheBiasOfOneRow) { EXPECT_EQ(saved_by_layer(1, 5), 1U); }
TEST_F(JoinedProducts, AddTheBiasOfOneOutput) { EXPECT_EQ(saved_by_layer(4, 1), 1U); }

TEST_F(JoinedProducts, TakeTheBiasAsTheirThirdOperand) {
  const value x = g.input("x", {4, 3}), w = g.input("w", {3, 5}), b = g.input("b", {5});
  const program_plan plan = plan_program(g, std::vector{matmul(x, w) + b}, {}, device_kind::cuda);
  ASSERT_EQ(plan.steps.size(), 1U);
  EXPECT_EQ(plan.steps[0].inputs, (std::vector{plan.storage_of(x), plan.storage_of(w), plan.storage_of(b)}));
  EXPECT_EQ(plan.arena_bytes, 4U * 5 * sizeof(float) + 48) << "64-byte aligned, and nothing for the product";
}

TEST_F(JoinedProducts, LeaveOthersAlone) {
  const value x = g.input("x", {4, 3}), w = g.input("w", {3, 5}), b = g.input("b", {5}),
              all = g.input("all", {4, 5}), column = g.input("column", {4, 1}), one = g.input("one", {1});
  const value y = matmul(x, w);
  EXPECT_EQ(saved({y + b, y}), 0U) << "the product itself is fetched";
  EXPECT_EQ(saved({y + b, y * all}), 0U) << "another kernel reads the product";
  EXPECT_EQ(saved({y * b}), 0U);
  EXPECT_EQ(saved({y + all}), 0U) << "a matrix is no bias";
  EXPECT_EQ(saved({y + column}), 0U);
  EXPECT_EQ(saved({y + one}), 0U);
  EXPECT_EQ(saved({all + b}), 0U) << "no product";
  EXPECT_EQ(saved({y + relu(b)}), 0U) << "the bias is computed behind the product";
}

// The product moves to the place of the sum, so its operands are read later than they were.
TEST_F(JoinedProducts, KeepTheirOperandsUntilTheyRun) {
  const value x = g.input("x", {16, 16}), w = g.input("w", {16, 16}), b = g.input("b", {16});
  const value operand = matmul(x, x);
  const value product = matmul(operand, w), between = matmul(w, x);
  const program_plan plan = plan_program(g, std::vector{matmul(product + b, between)}, {}, device_kind::cuda);
  const storage &a = plan.storages[plan.storage_of(operand)], &c = plan.storages[plan.storage_of(between)];
  const std::size_t joined = plan.steps.size() - 2;
  EXPECT_EQ(plan.steps[joined].inputs.size(), 3U);
  EXPECT_EQ(a.last, joined);
  EXPECT_TRUE(a.offset + a.bytes <= c.offset || c.offset + c.bytes <= a.offset) << "both are alive then";
}

bool overlap(const lifetime& a, std::size_t at_a, const lifetime& b, std::size_t at_b) {
  const bool in_time = a.first <= b.last && b.first <= a.last;
  return in_time && at_a < at_b + b.bytes && at_b < at_a + a.bytes;
}

TEST(MemoryPlan, OfNothingIsEmpty) { EXPECT_EQ(plan_memory({}).bytes, 0U); }

TEST(MemoryPlan, SharesBytesBetweenValuesThatNeverMeet) {
  const memory_plan plan = plan_memory({{1000, 0, 1}, {1000, 2, 3}, {1000, 4, 5}});
  EXPECT_EQ(plan.bytes, 1024U);
}

TEST(MemoryPlan, TakesTheSmallestGapThatHoldsAValue) {
  // Two long-lived values leave gaps of 1024 and 512 once the others are gone.
  const memory_plan plan =
      plan_memory({{4096, 0, 9}, {2048, 0, 9}, {1024, 0, 4}, {512, 0, 4}, {512, 5, 9}, {1024, 5, 9}});
  EXPECT_EQ(plan.bytes, 4096U + 2048 + 1024 + 512);
}

TEST(MemoryPlan, NeverLetsLiveValuesOverlap) {
  std::mt19937 draw(1);
  for (int round = 0; round < 50; ++round) {
    std::vector<lifetime> all(40);
    std::size_t sum = 0;
    for (lifetime& l : all) {
      const std::size_t first = draw() % 30;
      l = {draw() % 2000, first, first + draw() % 10};
      sum += (l.bytes + 63) / 64 * 64;
    }
    const memory_plan plan = plan_memory(all);
    EXPECT_LE(plan.bytes, sum);
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(plan.offsets[i] % 64, 0U);
      EXPECT_LE(plan.offsets[i] + all[i].bytes, plan.bytes);
      for (std::size_t j = 0; j < i; ++j)
        EXPECT_FALSE(overlap(all[i], plan.offsets[i], all[j], plan.offsets[j])) << i << " and " << j;
    }
  }
}

} // namespace
} // namespace mailgrad
