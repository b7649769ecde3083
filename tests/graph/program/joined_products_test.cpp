#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/program/program_plan.hpp>

#include <gmock/gmock.h>

#include <functional>
#include <vector>

namespace mailgrad {
namespace {

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
  const value product = matmul(operand, w);
  const value between = matmul(w, x);
  const program_plan plan = plan_program(g, std::vector{matmul(product + b, between)}, {}, device_kind::cuda);
  const storage &a = plan.storages[plan.storage_of(operand)], &c = plan.storages[plan.storage_of(between)];
  const std::size_t joined = plan.steps.size() - 2;
  EXPECT_EQ(plan.steps[joined].inputs.size(), 3U);
  EXPECT_EQ(a.last, joined);
  EXPECT_TRUE(a.offset + a.bytes <= c.offset || c.offset + c.bytes <= a.offset) << "both are alive then";
}

} // namespace
} // namespace mailgrad
