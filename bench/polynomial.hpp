#pragma once

#include <mailgrad/data/dataset.hpp>
#include <mailgrad/graph/models/model.hpp>
#include <mailgrad/graph/operations.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <random>
#include <utility>
#include <vector>

// A minimal model: the coefficients of [x^2, x, 1], learnt from samples of y = 5x^2 + 3. The time of its step
// is the overhead of any step.

namespace mailgrad::bench {

inline model_outputs polynomial(graph& g, const model_request& r) {
  const value x = g.input("features", {r.batch, 1});
  const value y = g.input("labels", {r.batch});
  tensor ones(x.dims());
  std::ranges::fill(ones.values(), 1.0F);
  const value features = concat(std::array{square(x), x, g.constant(std::move(ones))}, 1);
  const value guess = matmul(features, g.variable("w", {3, 1}, initialiser::zeros()));
  return {guess, mean_squared_error(reshape(guess, {r.batch}), y)};
}

inline std::shared_ptr<data_split> polynomial_samples(std::size_t count = 100'000) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<float> uniform(-10, 10);
  std::vector<float> x(count);
  std::vector<float> y(count);
  for (std::size_t i = 0; i < count; ++i) {
    x[i] = uniform(random);
    y[i] = 5 * x[i] * x[i] + 3;
  }
  dataset train(float_features{{1}, std::move(x)}, std::move(y));
  return std::make_shared<data_split>(data_split{std::move(train), {}, "polynomial", {}});
}

} // namespace mailgrad::bench
