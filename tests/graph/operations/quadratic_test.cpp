#include <mailgrad/graph/models/quadratic_model.hpp>
#include <mailgrad/graph/operations/quadratic.hpp>
#include <mailgrad/tests/support/gradient_check.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <numeric>

namespace mailgrad {
namespace {

using test::expect_gradients, test::is_refused, test::run_once, test::tensor_of;
using testing::ElementsAre, testing::FloatNear, testing::throws;

value point(graph& g, const std::vector<float>& x) { return g.constant(tensor_of({x.size()}, x)); }

using QuadraticOperation = test::operation_test;

TEST_F(QuadraticOperation, WeighsCoordinatesByTheirCurvature) {
  const quadratic_result y = quadratic(point(g, {1, 2, 3}), {}, 2, 2, {.curvature = 4, .condition = 4});
  EXPECT_THAT(run_once(y.loss), ElementsAre(FloatNear((1 * 1 + 2 * 4 + 4 * 9) / 2.0F, 1e-5F)));
  EXPECT_THAT(run_once(y.means), ElementsAre(2, 2, 2, 2));
}

/// The mean of two quadratics is one around the mean of their centres, and the variance of these.
TEST_F(QuadraticOperation, HasItsCentreAtTheTargets) {
  const value targets = numbers({2}, {1, 3});
  EXPECT_THAT(run_once(quadratic(point(g, {2, 5}), targets, 2, 1, {.curvature = 2}).loss),
              ElementsAre(FloatNear(0 + 9 + 2 * 1, 1e-5F)));
}

TEST_F(QuadraticOperation, HasTheGradientOfItsLoss) {
  const value x = drawn("x", {6}), targets = numbers({2}, {1, 3});
  expect_gradients(quadratic(x, targets, 2, 1, {.curvature = 3, .condition = 10}).loss, {x}, {}, {}, 5);
  expect_gradients(quadratic(x, {}, 1, 1, {.form = quadratic_form::chain}).loss, {x}, {}, {}, 5);
}

/// x* of the chain is 1 - j / (d + 1) at j = 1, ..., d, with the signs and the shift of the code it is from.
TEST_F(QuadraticOperation, HasALeastValueOfZeroInTheChain) {
  constexpr std::size_t d = 7;
  std::vector<float> least(d);
  for (std::size_t j = 0; j < d; ++j) least[j] = static_cast<float>(j + 1) / (d + 1) - 1;
  least[0] -= std::sqrt(static_cast<float>(d));
  EXPECT_THAT(run_once(quadratic(point(g, least), {}, 1, 1, {.form = quadratic_form::chain}).loss),
              ElementsAre(FloatNear(0, 1e-6F)));
}

/// The gradient at 0 is the noise alone.
TEST_F(QuadraticOperation, AddsNoiseOfItsDeviationToTheGradient) {
  constexpr std::size_t d = 40'001;
  const value x = g.variable("x", {d}, initialiser::zeros());
  const quadratic_result y = quadratic(x, {}, 4, 1, {.noise = 2, .seed = 5});
  const value slope = *gradients(y.loss, std::array{x})[0].dense;
  const std::vector<float> drawn = run_once(slope, {}, 3);
  const double mean = std::accumulate(drawn.begin(), drawn.end(), 0.0) / d;
  double square = 0, fourth = 0;
  for (const double n : drawn) square += n * n / d, fourth += n * n * n * n / d;
  EXPECT_NEAR(mean, 0, 0.02);
  EXPECT_NEAR(square, 1, 0.03) << "of a batch of four";
  EXPECT_NEAR(fourth, 3, 0.2) << "as a normal number has";
  EXPECT_EQ(run_once(slope, {}, 3), drawn);
  EXPECT_NE(run_once(slope, {}, 4), drawn);
  EXPECT_THAT(run_once(y.loss, {}, 3), ElementsAre(0)) << "the loss has no noise";
}

TEST_F(QuadraticOperation, AddsOneNumberToAllCoordinatesIfItsNoiseIsCommon) {
  const value x = g.variable("x", {100}, initialiser::zeros());
  const quadratic_result y = quadratic(x, {}, 4, 1, {.noise = 2, .noise_of = noise_form::common, .seed = 5});
  const value slope = *gradients(y.loss, std::array{x})[0].dense;
  constexpr std::uint64_t steps = 2'000;
  double square = 0;
  for (std::uint64_t step = 0; step < steps; ++step) {
    const std::vector<float> drawn = run_once(slope, {}, step);
    ASSERT_THAT(drawn, ::testing::Each(drawn[0]));
    square += double{drawn[0]} * drawn[0] / steps;
  }
  EXPECT_NEAR(square, 1, 0.1) << "of a batch of four";
}

TEST_F(QuadraticOperation, RefusesWhatItHasNoMeaningFor) {
  const value x = point(g, {1, 2}), targets = numbers({3}, {1, 2, 3});
  EXPECT_THAT([&] { quadratic(x, targets, 2, 1, {}); }, is_refused("a target"));
  EXPECT_THAT([&] { quadratic(x, targets, 3, 1, {.form = quadratic_form::chain}); },
              is_refused("none for a chain"));
  EXPECT_THAT([&] { quadratic(x, {}, 2, 1, {.condition = 0.5}); }, is_refused("condition"));
}

using QuadraticModel = test::operation_test;

TEST_F(QuadraticModel, IsBuiltByItsName) {
  const model_request r{.sample_dims = {3}, .classes = 4, .batch = 2};
  const model_outputs y = find_model("quadratic:dimension=5,noise=1,start=2")(g, r);
  EXPECT_THAT(run_once(y.loss), ElementsAre(10));
  EXPECT_EQ(y.logits.dims(), (shape{2, 4}));
}

TEST_F(QuadraticModel, EstimatesTheMeanOfItsTargets) {
  const model_request r{.sample_dims = {1}, .wanted = answer::a_number, .classes = 0, .batch = 2};
  find_model("quadratic:dimension=5")(g, r);
  EXPECT_EQ(g.inputs().size(), 1U) << "the targets";
}

TEST_F(QuadraticModel, RefusesTexts) {
  EXPECT_THAT([&] { find_model("quadratic")(g, {.sample_dims = {8}, .features = feature_kind::tokens}); },
              is_refused("reads no texts"));
  EXPECT_THAT([&] { find_model("quadratic:condition=0.1"); }, throws<std::invalid_argument>("condition"));
}

} // namespace
} // namespace mailgrad
