#include <mailgrad/graph/operations.hpp>
#include <mailgrad/tests/support/gradient_check.hpp>
#include <mailgrad/tests/support/refusal.hpp>

namespace mailgrad {
namespace {

using test::drawn_variable, test::expect_gradients, test::is_refused, test::is_refused_here,
    test::random_tensor, test::run_once, test::tensor_of;
using testing::ElementsAre, testing::FloatNear, testing::Pointwise, testing::throws;

using Softmax = test::operation_test;

TEST_F(Softmax, AgreesWithTheFormulaInDouble) {
  for (const std::size_t columns : {1U, 2U, 7U, 8U, 9U, 10U, 65U}) {
    graph fresh;
    const tensor x = random_tensor({3, columns}, 1, -5, 5);
    const auto y = run_once(softmax(fresh.constant(random_tensor({3, columns}, 1, -5, 5))));
    for (std::size_t row = 0; row < 3; ++row) {
      double sum = 0;
      for (std::size_t i = 0; i < columns; ++i)
        sum += std::exp(static_cast<double>(x.values()[row * columns + i]));
      for (std::size_t i = row * columns; i < (row + 1) * columns; ++i)
        EXPECT_NEAR(y[i], std::exp(static_cast<double>(x.values()[i])) / sum, 1e-6);
    }
  }
}

TEST_F(Softmax, DoesNotOverflow) {
  EXPECT_THAT(run_once(softmax(numbers({3}, {1000, 1000, -1000}))), ElementsAre(0.5F, 0.5F, 0));
}

TEST_F(Softmax, HasTheGradientOfCentralDifferences) {
  const value x = drawn("x", {2, 3, 9}, -2, 2);
  expect_gradients(softmax(x), {x});
  const value one = drawn("one", {4, 1}, -2, 2);
  expect_gradients(softmax(one), {one});
}

TEST_F(Softmax, NeedsAnAxis) {
  EXPECT_THAT([&] { softmax(g.constant(1)); }, is_refused("softmax(float32 scalar)"));
}

struct normalised {
  value x, gamma, beta;

  normalised(graph& g, const shape& dims)
      : x(drawn_variable(g, "x", dims)), gamma(drawn_variable(g, "gamma", {dims.back()}, 0.5F, 1.5F)),
        beta(drawn_variable(g, "beta", {dims.back()})) {}
};

using LayerNormOperation = test::operation_test;

TEST_F(LayerNormOperation, NormalisesEachRow) {
  const value x = numbers({2, 1, 2}, {1, 3, -4, 4}), gamma = numbers({2}, {2, 1});
  const value beta = numbers({2}, {0, 5});
  const std::vector<float> expected{-2, 6, -2, 6};
  EXPECT_THAT(run_once(layer_norm(x, gamma, beta, 1e-9F)), Pointwise(FloatNear(1e-5F), expected));
}

TEST_F(LayerNormOperation, HasAGradientForEachInput) {
  for (const shape& dims : {shape{2, 3, 5}, shape{4, 9}, shape{8}}) {
    graph fresh;
    const normalised n(fresh, dims);
    expect_gradients(layer_norm(n.x, n.gamma, n.beta, 0.1F), {n.x, n.gamma, n.beta});
  }
}

TEST_F(LayerNormOperation, PassesAGradientOn) {
  const normalised n(g, {3, 4});
  expect_gradients(layer_norm(n.x * n.x, n.gamma, n.beta, 0.1F) * n.x, {n.x, n.gamma, n.beta});
}

TEST_F(LayerNormOperation, OfOneElementIsTheShift) {
  const normalised n(g, {3, 1});
  const float beta = run_once(n.beta)[0];
  EXPECT_THAT(run_once(layer_norm(n.x, n.gamma, n.beta)), ElementsAre(beta, beta, beta));
}

TEST_F(LayerNormOperation, NamesTheLineAndTheShapes) {
  const normalised n(g, {3, 4});
  const value three = g.input("three", {3});
  EXPECT_THAT([&] { layer_norm(n.x, three, n.beta); },
              is_refused_here("layer_norm(float32 3x4, float32 3, float32 4)", "must have shape 4"));
  EXPECT_THAT([&] { layer_norm(n.x, n.gamma, n.beta, 0); }, is_refused("epsilon must be above 0"));
  EXPECT_THAT([&] { layer_norm(g.constant(1), n.gamma, n.beta); }, is_refused("rows of x have no elements"));
}

value labels_of(graph& g, const shape& dims, const std::vector<std::int32_t>& values) {
  return g.constant(tensor_of<std::int32_t>(dims, values));
}

float loss_of(const shape& dims, const std::vector<float>& logits, const std::vector<std::int32_t>& labels) {
  graph g;
  return run_once(
      cross_entropy(g.constant(tensor_of(dims, logits)), labels_of(g, {labels.size()}, labels)))[0];
}

using CrossEntropy = test::operation_test;

TEST_F(CrossEntropy, AgreesWithTheFormulaInDouble) {
  const tensor x = random_tensor({5, 10}, 3, -4, 4);
  const std::vector<std::int32_t> labels{0, 9, 3, 3, 7};
  double expected = 0;
  for (std::size_t row = 0; row < 5; ++row) {
    double sum = 0;
    for (std::size_t i = 0; i < 10; ++i) sum += std::exp(static_cast<double>(x.values()[row * 10 + i]));
    const std::size_t at_label = row * 10 + static_cast<std::size_t>(labels[row]);
    expected += (std::log(sum) - static_cast<double>(x.values()[at_label])) / 5;
  }
  EXPECT_NEAR(loss_of({5, 10}, {x.values().begin(), x.values().end()}, labels), expected, 2e-6);
}

TEST_F(CrossEntropy, StaysFiniteForLargeLogits) {
  EXPECT_FLOAT_EQ(loss_of({1, 2}, {1000, -1000}, {1}), 2000);
  EXPECT_FLOAT_EQ(loss_of({1, 2}, {1000, -1000}, {0}), 0);
}

TEST_F(CrossEntropy, RefusesALabelThatIsNoClass) {
  const std::vector<std::int32_t> two{2};
  EXPECT_THAT(
      [&] {
        loss_of({1, 2}, {1, 2}, two);
      },
      throws<std::out_of_range>("label 2, but the logits have 2 classes"));
  EXPECT_THROW(loss_of({1, 2}, {1, 2}, {-1}), std::out_of_range);
}

TEST_F(CrossEntropy, IsNaNIfALogitIs) {
  EXPECT_TRUE(std::isnan(loss_of({1, 3}, {1, std::numeric_limits<float>::quiet_NaN(), 2}, {0})));
}

TEST_F(CrossEntropy, HasTheGradientOfCentralDifferences) {
  for (const std::size_t classes : {1U, 2U, 10U, 17U}) {
    graph fresh;
    const value x = drawn_variable(fresh, "x", {4, classes}, -2, 2);
    const auto last = static_cast<std::int32_t>(classes) - 1;
    const value loss = cross_entropy(x, labels_of(fresh, {4}, {0, last, last / 2, 0}));
    expect_gradients(loss, {x});
    expect_gradients(loss * loss, {x}); // its gradient is not 1
  }
}

TEST_F(CrossEntropy, TakesLabelsOfAnyRank) {
  const value x = drawn("x", {2, 3, 4}, -2, 2);
  expect_gradients(cross_entropy(x, labels_of(g, {2, 3}, {0, 1, 2, 3, 0, 1})), {x});
}

TEST_F(CrossEntropy, WantsALabelForEachRow) {
  const value x = g.constant(tensor{{4, 10}});
  const value labels = integers({3}, {0, 0, 0});
  EXPECT_THAT([&] { cross_entropy(x, labels); },
              is_refused_here("cross_entropy(float32 4x10, int32 3)", "one label for each row"));
  EXPECT_THAT([&] { cross_entropy(x, x); }, is_refused("expected int32 labels"));
}

} // namespace
} // namespace mailgrad
