#include <mailgrad/graph/operations.hpp>

#include <mailgrad/tests/support/gradient_check.hpp>

#include <gmock/gmock.h>
#include <limits>

namespace mailgrad {
namespace {

using test::expect_gradients;
using test::random_tensor;
using test::run_once;
using test::tensor_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

struct activation {
  const char* name;
  value (*apply)(const value&, std::source_location);
  double (*reference)(double);
  float low, high; ///< where it is defined, and at least a gradient check's step away from a kink
};

double exact_gelu(double x) { return x * std::erfc(-x / std::sqrt(2.0)) / 2; }

class Activations : public testing::TestWithParam<activation> {};

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
  const value x = g.variable("x", {3, 11}, initialiser::uniform(GetParam().low, GetParam().high));
  expect_gradients(GetParam().apply(x, std::source_location::current()), {x});
}

INSTANTIATE_TEST_SUITE_P(
    All, Activations,
    testing::Values(activation{"relu_right", relu, [](double x) { return std::max(x, 0.0); }, 0.01F, 2},
                    activation{"relu_left", relu, [](double x) { return std::max(x, 0.0); }, -2, -0.01F},
                    activation{"gelu", gelu, exact_gelu, -4, 4},
                    activation{"tanh", tanh, [](double x) { return std::tanh(x); }, -3, 3},
                    activation{"sigmoid", sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, -5, 5},
                    activation{"exp", exp, [](double x) { return std::exp(x); }, -3, 2},
                    activation{"log", log, [](double x) { return std::log(x); }, 0.2F, 9},
                    activation{"square", square, [](double x) { return x * x; }, -3, 3},
                    activation{"sqrt", sqrt, [](double x) { return std::sqrt(x); }, 0.3F, 9}),
    [](const auto& tested) { return tested.param.name; });

TEST(Relu, LetsNaNThrough) {
  graph g;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto y = run_once(relu(g.constant(tensor_of({3}, {nan, -1, 1}))));
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[1], 0);
  EXPECT_EQ(y[2], 1);
}

TEST(Sigmoid, SaturatesWithoutOverflow) {
  graph g;
  EXPECT_THAT(run_once(sigmoid(g.constant(tensor_of({3}, {-200, 0, 200})))), ElementsAre(0, 0.5F, 1));
}

TEST(Tanh, RefusesIntegers) {
  graph g;
  const value labels = g.input("labels", {3}, dtype::int32);
  EXPECT_THAT([&] { tanh(labels); },
              ThrowsMessage<graph_error>(HasSubstr("tanh(int32 3): expected float32")));
}

} // namespace
} // namespace mailgrad
