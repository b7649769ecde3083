#include <mailgrad/graph/operations.hpp>

#include <mailgrad/tests/support/gradient_check.hpp>

#include <gmock/gmock.h>

namespace mailgrad {
namespace {

using test::expect_gradients;
using test::random_tensor;
using test::run_once;
using test::tensor_of;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

TEST(Arithmetic, RepeatsExtentsOfOne) {
  graph g;
  const value column = g.constant(tensor_of({3, 1}, {10, 20, 30}));
  const value row = g.constant(tensor_of({2}, {1, 2}));
  EXPECT_EQ((column + row).dims(), (shape{3, 2}));
  EXPECT_THAT(run_once(column + row), ElementsAre(11, 12, 21, 22, 31, 32));
  EXPECT_THAT(run_once(column - row), ElementsAre(9, 8, 19, 18, 29, 28));
  EXPECT_THAT(run_once(column * row), ElementsAre(10, 20, 20, 40, 30, 60));
  EXPECT_THAT(run_once(row / column), ElementsAre(0.1F, 0.2F, 0.05F, 0.1F, 1 / 30.0F, 2 / 30.0F));
}

TEST(Arithmetic, RepeatsAroundAMiddleAxis) {
  graph g;
  const value a = g.constant(tensor_of({2, 1, 2}, {1, 2, 3, 4}));
  const value b = g.constant(tensor_of({1, 3, 1}, {10, 20, 30}));
  EXPECT_THAT(run_once(a + b), ElementsAre(11, 12, 21, 22, 31, 32, 13, 14, 23, 24, 33, 34));
}

TEST(Arithmetic, TakesNumbersOnEitherSide) {
  graph g;
  const value x = g.constant(tensor_of({3}, {1, 2, 4}));
  EXPECT_THAT(run_once(x + 1), ElementsAre(2, 3, 5));
  EXPECT_THAT(run_once(x - 1), ElementsAre(0, 1, 3));
  EXPECT_THAT(run_once(x * 3), ElementsAre(3, 6, 12));
  EXPECT_THAT(run_once(x / 2), ElementsAre(0.5F, 1, 2));
  EXPECT_THAT(run_once(1 + x), ElementsAre(2, 3, 5));
  EXPECT_THAT(run_once(1 - x), ElementsAre(0, -1, -3));
  EXPECT_THAT(run_once(3 * x), ElementsAre(3, 6, 12));
  EXPECT_THAT(run_once(2 / x), ElementsAre(2, 1, 0.5F));
  EXPECT_THAT(run_once(-x), ElementsAre(-1, -2, -4));
}

TEST(Arithmetic, WorksOnScalarsAndOnNothing) {
  graph g;
  EXPECT_THAT(run_once(g.constant(2) + g.constant(3)), ElementsAre(5));
  EXPECT_THAT(run_once(g.constant(tensor{{0, 3}}) + g.constant(tensor{{3}})), IsEmpty());
  EXPECT_THAT(run_once(g.constant(tensor{{0, 3}}) + g.constant(tensor{{1, 3}})), IsEmpty());
}

TEST(Arithmetic, NamesLineAndShapesOfAMismatch) {
  graph g;
  const value a = g.constant(tensor{{2, 3}}), b = g.constant(tensor{{4, 3}});
  const auto line = std::to_string(__LINE__ + 1);
  const auto wrong = [&] { a + b; };
  EXPECT_THAT(wrong, ThrowsMessage<graph_error>(AllOf(HasSubstr("arithmetic_test.cpp:" + line),
                                                      HasSubstr("add(float32 2x3, float32 4x3)"),
                                                      HasSubstr("extents 2 and 4 differ"))));
}

TEST(Arithmetic, RefusesIntegers) {
  graph g;
  const value labels = g.input("labels", {3}, dtype::int32);
  EXPECT_THAT([&] { labels + 1; }, ThrowsMessage<graph_error>(HasSubstr("expected float32")));
}

class ArithmeticGradients : public testing::TestWithParam<std::pair<shape, shape>> {};

TEST_P(ArithmeticGradients, AgreeWithCentralDifferences) {
  graph g;
  const value a = g.variable("a", GetParam().first, initialiser::uniform(0.5F, 2));
  const value b = g.variable("b", GetParam().second, initialiser::uniform(0.5F, 2));
  expect_gradients(a + b, {a, b});
  expect_gradients(a - b, {a, b});
  expect_gradients(a * b, {a, b});
  expect_gradients(a / b, {a, b});
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, ArithmeticGradients,
    testing::Values(std::pair<shape, shape>{{3, 5}, {3, 5}}, std::pair<shape, shape>{{3, 5}, {5}},
                    std::pair<shape, shape>{{3, 1}, {1, 4}}, std::pair<shape, shape>{{}, {2, 3}},
                    std::pair<shape, shape>{{2, 1, 3}, {4, 1}}, std::pair<shape, shape>{{1}, {1}}));

TEST(Arithmetic, CountsAValueUsedTwiceTwice) {
  graph g;
  const value x = g.variable("x", {4}, initialiser::uniform(1, 2));
  expect_gradients(x * x + x / x - x, {x});
}

TEST(AddBias, AddsItToEachRow) {
  graph g;
  const value x = g.constant(tensor_of({2, 3}, {1, 2, 3, 4, 5, 6}));
  const value b = g.constant(tensor_of({3}, {10, 20, 30}));
  EXPECT_THAT(run_once(add_bias(x, b)), ElementsAre(11, 22, 33, 14, 25, 36));
}

TEST(AddBias, WantsAsManyElementsAsARow) {
  graph g;
  const value x = g.constant(tensor{{2, 3}});
  EXPECT_THAT([&] { add_bias(x, g.constant(tensor{{1}})); },
              ThrowsMessage<graph_error>(HasSubstr("the bias has 1 elements, a row of x has 3")));
  EXPECT_THAT(
      [&] {
        add_bias(x, g.constant(tensor{{1, 3}}));
      },
      ThrowsMessage<graph_error>(HasSubstr("the bias has rank 2, not 1")));
}

TEST(BiasRelu, IsTheReluOfTheSum) {
  for (const std::size_t columns : {1U, 7U, 8U, 33U}) {
    graph g;
    const value x = g.constant(random_tensor({5, columns}, 1));
    const value b = g.constant(random_tensor({columns}, 2));
    EXPECT_EQ(run_once(bias_relu(x, b)), run_once(relu(add_bias(x, b))));
  }
}

TEST(BiasRelu, HasTheGradientsOfItsParts) {
  for (const std::size_t columns : {1U, 7U, 8U, 33U}) {
    graph g;
    const value x = g.variable("x", {5, columns}, initialiser::uniform(-1, 1));
    const value b = g.variable("b", {columns}, initialiser::uniform(-1, 1));
    const std::vector<value> sources{x, b};
    const value weights = g.constant(random_tensor({5, columns}, 3));
    const auto fused = gradients(reduce_sum(bias_relu(x, b) * weights), sources);
    const auto parts = gradients(reduce_sum(relu(add_bias(x, b)) * weights), sources);
    for (std::size_t i = 0; i < 2; ++i) {
      const auto expected = run_once(*parts[i].dense);
      EXPECT_THAT(run_once(*fused[i].dense), testing::Pointwise(testing::FloatNear(1e-6F), expected));
    }
  }
}

} // namespace
} // namespace mailgrad
