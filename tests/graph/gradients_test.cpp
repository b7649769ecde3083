#include <mailgrad/graph/gradients.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/tests/support/gradient_check.hpp>

namespace mailgrad {
namespace {

using test::expect_gradients, test::is_refused, test::run_once, test::tensor_of;
using testing::ElementsAre;

using Gradients = test::operation_test;

TEST_F(Gradients, OfTheLossItselfIsOne) {
  const value x = g.variable("x", {}, initialiser::constant(3));
  const auto found = gradients(x, std::vector{x});
  EXPECT_THAT(run_once(*found[0].dense), ElementsAre(1));
}

TEST_F(Gradients, AreEmptyWhereTheLossDoesNotDependOnAValue) {
  const value x = g.variable("x", {}, {}), unused = g.variable("unused", {2}, {});
  const auto found = gradients(x * x, std::vector{x, unused});
  EXPECT_TRUE(found[0].dense);
  EXPECT_FALSE(found[1].dense);
  EXPECT_TRUE(found[1].sparse.empty());
}

TEST_F(Gradients, SumOverAllPathsToTheLoss) {
  const value x = g.variable("x", {}, initialiser::constant(3)), y = x * x;
  const auto found = gradients(y * y + y + x, std::vector{x}); // x^4 + x^2 + x
  EXPECT_THAT(run_once(*found[0].dense), ElementsAre(4 * 27 + 2 * 3 + 1));
}

TEST_F(Gradients, MayBeTakenOfGradients) {
  const value x = g.variable("x", {}, initialiser::constant(2));
  const auto first = gradients(x * x * x, std::vector{x});
  const auto second = gradients(*first[0].dense, std::vector{x});
  EXPECT_THAT(run_once(*second[0].dense), ElementsAre(12));
}

TEST_F(Gradients, ReachInputsAndIntermediateValues) {
  const value x = g.input("x", {2}), y = x * 3;
  const auto found = gradients(reduce_sum(y * y), std::vector{x, y});
  const test::feeds fed{{x, tensor_of({2}, {1, 2})}};
  EXPECT_THAT(run_once(*found[0].dense, fed), ElementsAre(18, 36));
  EXPECT_THAT(run_once(*found[1].dense, fed), ElementsAre(6, 12));
}

TEST_F(Gradients, OfATwoLayerClassifierAgreeWithCentralDifferences) {
  const value x = g.input("x", {4, 5}), labels = g.input("labels", {4}, dtype::int32);
  const value w1 = g.variable("w1", {5, 6}, initialiser::glorot(5, 6));
  const value b1 = g.variable("b1", {6}, initialiser::constant(0.1F));
  const value w2 = g.variable("w2", {6, 3}, initialiser::glorot(6, 3));
  const value b2 = g.variable("b2", {3}, initialiser::zeros()), hidden = tanh(add_bias(matmul(x, w1), b1));
  const value loss = cross_entropy(add_bias(matmul(hidden, w2), b2), labels);
  expect_gradients(
      loss, {w1, b1, w2, b2, x},
      {{x, test::random_tensor({4, 5}, 1)}, {labels, tensor_of<std::int32_t>({4}, {0, 1, 2, 1})}});
}

TEST_F(Gradients, WantAScalarLoss) {
  const value x = g.variable("x", {2}, {});
  EXPECT_THAT([&] { gradients(x, std::vector{x}); }, is_refused("the loss must be a scalar, not 2"));
}

TEST_F(Gradients, NameAnOperationThatHasNone) {
  const value x = g.variable("x", {}, {});
  const auto first = gradients(relu(x), std::vector{x});
  EXPECT_THAT([&] { gradients(*first[0].dense, std::vector{x}); },
              is_refused("relu_gradient has no gradient"));
}

} // namespace
} // namespace mailgrad
