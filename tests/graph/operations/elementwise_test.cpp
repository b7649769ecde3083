#include <mailgrad/graph/operations.hpp>
#include <mailgrad/tests/support/gradient_check.hpp>

namespace mailgrad {
namespace {

using test::drawn_variable, test::expect_gradients, test::is_refused, test::is_refused_here,
    test::random_tensor, test::run_once, test::tensor_of;
using testing::AllOf, testing::AnyOf, testing::Contains, testing::Each, testing::ElementsAre,
    testing::FloatNear, testing::IsEmpty, testing::IsNan, testing::Pointwise;

struct activation_case {
  const char* name;
  value (*apply)(const value&, std::source_location);
  double (*reference)(double);
  float low, high; ///< where it is defined, and at least a gradient check's step away from a kink
};

double exact_gelu(double x) { return x * std::erfc(-x / std::sqrt(2.0)) / 2; }

class Activations : public testing::TestWithParam<activation_case> {};

TEST_P(Activations, AgreeWithTheFormulaInDouble) {
  for (const std::size_t n : {1U, 7U, 8U, 9U, 1000U}) {
    graph g;
    const tensor x = random_tensor({n}, n, GetParam().low, GetParam().high);
    const auto y = run_once(GetParam().apply(
        g.constant(random_tensor({n}, n, GetParam().low, GetParam().high)), std::source_location::current()));
    for (std::size_t i = 0; i < n; ++i) {
      const double expected = GetParam().reference(static_cast<double>(x.values()[i]));
      EXPECT_NEAR(y[i], expected, 1e-6 * (1 + std::abs(expected))) << x.values()[i];
    }
  }
}

TEST_P(Activations, HaveTheGradientOfCentralDifferences) {
  graph g;
  const value x = drawn_variable(g, "x", {3, 11}, GetParam().low, GetParam().high);
  expect_gradients(GetParam().apply(x, std::source_location::current()), {x});
}

INSTANTIATE_TEST_SUITE_P(
    All, Activations,
    testing::Values(activation_case{"relu_right", relu, [](double x) { return std::max(x, 0.0); }, 0.01F, 2},
                    activation_case{"relu_left", relu, [](double x) { return std::max(x, 0.0); }, -2, -0.01F},
                    activation_case{"gelu", gelu, exact_gelu, -4, 4},
                    activation_case{"tanh", tanh, [](double x) { return std::tanh(x); }, -3, 3},
                    activation_case{"sigmoid", sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, -5,
                                    5},
                    activation_case{"exp", exp, [](double x) { return std::exp(x); }, -3, 2},
                    activation_case{"log", log, [](double x) { return std::log(x); }, 0.2F, 9},
                    activation_case{"square", square, [](double x) { return x * x; }, -3, 3},
                    activation_case{"sqrt", sqrt, [](double x) { return std::sqrt(x); }, 0.3F, 9}),
    [](const auto& tested) { return tested.param.name; });

TEST(Relu, LetsNaNThrough) {
  graph g;
  EXPECT_THAT(run_once(relu(g.constant(tensor_of({3}, {std::nanf(""), -1, 1})))), ElementsAre(IsNan(), 0, 1));
}

TEST(Sigmoid, SaturatesWithoutOverflow) {
  graph g;
  EXPECT_THAT(run_once(sigmoid(g.constant(tensor_of({3}, {-200, 0, 200})))), ElementsAre(0, 0.5F, 1));
}

TEST(Tanh, RefusesIntegers) {
  graph g;
  const value labels = g.input("labels", {3}, dtype::int32);
  EXPECT_THAT([&] { tanh(labels); }, is_refused("tanh(int32 3): expected float32"));
}

using Arithmetic = test::operation_test;

TEST_F(Arithmetic, RepeatsExtentsOfOne) {
  const value column = numbers({3, 1}, {10, 20, 30}), row = numbers({2}, {1, 2});
  EXPECT_EQ((column + row).dims(), (shape{3, 2}));
  EXPECT_THAT(run_once(column + row), ElementsAre(11, 12, 21, 22, 31, 32));
  EXPECT_THAT(run_once(column - row), ElementsAre(9, 8, 19, 18, 29, 28));
  EXPECT_THAT(run_once(column * row), ElementsAre(10, 20, 20, 40, 30, 60));
  EXPECT_THAT(run_once(row / column), ElementsAre(0.1F, 0.2F, 0.05F, 0.1F, 1 / 30.0F, 2 / 30.0F));
}

TEST_F(Arithmetic, RepeatsAroundAMiddleAxis) {
  const value a = numbers({2, 1, 2}, {1, 2, 3, 4}), b = numbers({1, 3, 1}, {10, 20, 30});
  EXPECT_THAT(run_once(a + b), ElementsAre(11, 12, 21, 22, 31, 32, 13, 14, 23, 24, 33, 34));
}

TEST_F(Arithmetic, TakesNumbersOnEitherSide) {
  const value x = numbers({3}, {1, 2, 4});
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

TEST_F(Arithmetic, WorksOnScalarsAndOnNothing) {
  EXPECT_THAT(run_once(g.constant(2) + g.constant(3)), ElementsAre(5));
  EXPECT_THAT(run_once(g.constant(tensor{{0, 3}}) + g.constant(tensor{{3}})), IsEmpty());
  EXPECT_THAT(run_once(g.constant(tensor{{0, 3}}) + g.constant(tensor{{1, 3}})), IsEmpty());
}

TEST_F(Arithmetic, NamesLineAndShapesOfAMismatch) {
  const value a = g.constant(tensor{{2, 3}}), b = g.constant(tensor{{4, 3}});
  EXPECT_THAT([&] { a + b; }, is_refused_here("add(float32 2x3, float32 4x3)", "extents 2 and 4 differ"));
}

TEST_F(Arithmetic, RefusesIntegers) {
  const value labels = g.input("labels", {3}, dtype::int32);
  EXPECT_THAT([&] { labels + 1; }, is_refused("expected float32"));
}

class ArithmeticGradients : public testing::TestWithParam<std::pair<shape, shape>> {};

TEST_P(ArithmeticGradients, AgreeWithCentralDifferences) {
  graph g;
  const value a = drawn_variable(g, "a", GetParam().first, 0.5F, 2);
  const value b = drawn_variable(g, "b", GetParam().second, 0.5F, 2);
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

TEST_F(Arithmetic, CountsAValueUsedTwiceTwice) {
  const value x = drawn("x", {4}, 1, 2);
  expect_gradients(x * x + x / x - x, {x});
}

using AddBias = test::operation_test;

TEST_F(AddBias, AddsItToEachRow) {
  const value x = numbers({2, 3}, {1, 2, 3, 4, 5, 6}), b = numbers({3}, {10, 20, 30});
  EXPECT_THAT(run_once(add_bias(x, b)), ElementsAre(11, 22, 33, 14, 25, 36));
}

TEST_F(AddBias, WantsAsManyElementsAsARow) {
  const value x = g.constant(tensor{{2, 3}});
  EXPECT_THAT([&] { add_bias(x, g.constant(tensor{{1}})); },
              is_refused("the bias has 1 elements, a row of x has 3"));
  EXPECT_THAT([&] { add_bias(x, g.constant(tensor{{1, 3}})); }, is_refused("the bias has rank 2, not 1"));
}

TEST(BiasRelu, IsTheReluOfTheSum) {
  for (const std::size_t columns : {1U, 7U, 8U, 33U}) {
    graph g;
    const value x = g.constant(random_tensor({5, columns}, 1)), b = g.constant(random_tensor({columns}, 2));
    EXPECT_EQ(run_once(bias_relu(x, b)), run_once(relu(add_bias(x, b))));
  }
}

TEST(BiasRelu, HasTheGradientsOfItsParts) {
  for (const std::size_t columns : {1U, 7U, 8U, 33U}) {
    graph g;
    const value x = drawn_variable(g, "x", {5, columns}), b = drawn_variable(g, "b", {columns});
    const std::array sources{x, b};
    const value weights = g.constant(random_tensor({5, columns}, 3));
    const auto fused = gradients(reduce_sum(bias_relu(x, b) * weights), sources);
    const auto parts = gradients(reduce_sum(relu(add_bias(x, b)) * weights), sources);
    for (std::size_t i = 0; i < 2; ++i)
      EXPECT_THAT(run_once(*fused[i].dense), Pointwise(FloatNear(1e-6F), run_once(*parts[i].dense)));
  }
}

struct biased {
  value x, b;

  biased(graph& g, const shape& dims)
      : x(drawn_variable(g, "x", dims, -4, 4)), b(drawn_variable(g, "b", {dims.back()})) {}
};

const std::vector<shape> some_shapes{{2, 3, 5}, {4, 33}, {16}, {3, 1}};

using BiasGelu = test::operation_test;

TEST_F(BiasGelu, IsGeluOfTheSum) {
  for (const shape& dims : some_shapes) {
    graph fresh;
    const biased n(fresh, dims);
    EXPECT_THAT(run_once(bias_gelu(n.x, n.b)),
                Pointwise(FloatNear(1e-6F), run_once(gelu(add_bias(n.x, n.b)))));
  }
}

TEST_F(BiasGelu, HasAGradientForEachInput) {
  for (const shape& dims : some_shapes) {
    graph fresh;
    const biased n(fresh, dims);
    expect_gradients(bias_gelu(n.x, n.b), {n.x, n.b});
  }
}

TEST_F(BiasGelu, LeavesAloneWhatOthersRead) {
  const biased n(g, {3, 4});
  const value twice = n.x + n.x;
  expect_gradients(bias_gelu(twice, n.b) * twice, {n.x, n.b});
}

TEST_F(BiasGelu, NamesTheLineAndTheShapes) {
  const biased n(g, {3, 4});
  const value three = g.input("three", {3});
  EXPECT_THAT([&] { bias_gelu(n.x, three); },
              is_refused_here("bias_gelu(float32 3x4, float32 3)", "as long as a row of x"));
  EXPECT_THAT([&] { bias_gelu(g.input("labels", {4}, dtype::int32), n.b); }, is_refused("expected float32"));
}

value ones(graph& g, const shape& dims) {
  return g.constant(tensor_of(dims, std::vector<float>(dims.size(), 1)));
}

using DropoutOperation = test::operation_test;

TEST_F(DropoutOperation, DropsSomeAndScalesTheRest) {
  const auto y = run_once(dropout(ones(g, {10, 10}), 0.5F, 1));
  EXPECT_THAT(y, Each(AnyOf(0, 2)));
  EXPECT_THAT(y, AllOf(Contains(0), Contains(2)));
}

TEST_F(DropoutOperation, DrawsAnewInEachStep) {
  const value y = dropout(ones(g, {100}), 0.5F, 1);
  EXPECT_EQ(run_once(y, {}, 3), run_once(y, {}, 3));
  EXPECT_NE(run_once(y, {}, 3), run_once(y, {}, 4));
}

TEST_F(DropoutOperation, DrawsBySeed) {
  EXPECT_NE(run_once(dropout(ones(g, {100}), 0.5F, 1)), run_once(dropout(ones(g, {100}), 0.5F, 2)));
}

TEST_F(DropoutOperation, DropsTheSameOnTheWayBack) {
  const value x = drawn("x", {5, 7});
  expect_gradients(dropout(x * x, 0.4F, 9), {x}, {}, {}, 5);
}

TEST_F(DropoutOperation, LeavesAloneWhatOthersRead) {
  const value x = drawn("x", {40}), y = x * 2;
  EXPECT_EQ(run_once(dropout(y, 0.5F, 1) - dropout(y, 0.5F, 1)), std::vector<float>(40));
}

TEST_F(DropoutOperation, RefusesARateThatIsNone) {
  const value x = ones(g, {2});
  EXPECT_THAT([&] { dropout(x, 1, 1); }, is_refused_here("dropout(float32 2)", "at least 0 and below 1"));
  EXPECT_THAT([&] { dropout(x, -0.1F, 1); }, is_refused("rate"));
  EXPECT_THAT([&] { dropout(g.input("n", {2}, dtype::int32), 0.1F, 1); }, is_refused("float32"));
}

} // namespace
} // namespace mailgrad
