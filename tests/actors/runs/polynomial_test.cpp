#include <mailgrad/actors/training.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/placement/replicate.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

namespace mailgrad {
namespace {

/// [x^2, x, 1] w
value polynomial(const named_values& inputs) {
  const value x = inputs.at("x");
  tensor ones(x.dims());
  std::ranges::fill(ones.values(), 1.0F);
  graph& g = x.owner();
  const value features = concat(std::array{square(x), x, g.constant(std::move(ones))}, 1);
  return matmul(features, g.variable("w", {3, 1}, initialiser::zeros()));
}

/// Over the devices of its worker.
model_outputs model(graph& g, const model_request& r) {
  const value x = g.input("features", {r.batch, 1});
  const value y = g.input("labels", {r.batch});
  const value guess = replicate(polynomial, r.devices, {{"x", x}});
  return {guess, mean_squared_error(reshape(guess, {r.batch}), y)};
}

/// y = 5x^2 + 3 for x uniform in (-10, 10).
dataset samples(std::size_t count) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<float> uniform(-10, 10);
  std::vector<float> x(count);
  std::vector<float> y(count);
  for (std::size_t i = 0; i < count; ++i) {
    x[i] = uniform(random);
    y[i] = 5 * x[i] * x[i] + 3;
  }
  return {float_features{{1}, std::move(x)}, std::move(y)};
}

void expect_found(std::vector<device> devices) {
  training_options o;
  o.devices = std::move(devices);
  o.workers = 1;
  o.batch = 100;
  o.steps = 1000;
  o.optimizer = parse_optimizer("adam");
  o.optimizer.learning_rate = 0.1;
  auto data = std::make_shared<data_split>(data_split{samples(100'000), samples(100), "5x^2 + 3", {}});
  training run(model, std::move(data), o);
  const training_report r = run.report();
  EXPECT_EQ(r.ended, "completed") << r.why;
  EXPECT_EQ(r.steps, 1000U);
  const std::span<const float> w = run.parameters();
  EXPECT_NEAR(w[0], 5, 0.05);
  EXPECT_NEAR(w[1], 0, 0.05);
  EXPECT_NEAR(w[2], 3, 0.5) << "the constant is still moving";
  EXPECT_LT(*r.test_rmse, 0.5);
}

TEST(Polynomial, ComesOutOfAThousandStepsOfAdam) { expect_found({{device_kind::cpu, 0}}); }

TEST(Polynomial, ComesOutOfTwoDevicesToo) {
  if (available_devices().size() < 2) GTEST_SKIP() << "one core";
  expect_found({{device_kind::cpu, 0}, {device_kind::cpu, 1}});
}

} // namespace
} // namespace mailgrad
