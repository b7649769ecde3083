// Learns a polynomial from samples of it: y = 5x^2 + 3, of which the program knows only the degree. Adam
// finds the coefficients of x^2, x and 1. polynomial.cpp uses one device and polynomial_replicated.cpp two;
// only two lines differ.

#include <mailgrad/mailgrad.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <exception>
#include <random>

using namespace mailgrad;

/// The value of the polynomial at each x: [x^2, x, 1] w.
value polynomial(const named_values& inputs) {
  const value x = inputs.at("x");
  graph& g = x.owner();
  tensor ones(x.dims());
  std::ranges::fill(ones.values(), 1.0F);
  const value features = concat(std::array{square(x), x, g.constant(std::move(ones))}, 1);
  return matmul(features, g.variable("w", {3, 1}, initialiser::zeros()));
}

model_outputs model(graph& g, const model_request& r) {
  const value x = g.input("features", {r.batch, 1});
  const value y = g.input("labels", {r.batch});
  const value guess = replicate(polynomial, r.devices, {{"x", x}});
  return {guess, mean_squared_error(reshape(guess, {r.batch}), y)};
}

/// x uniform in (-10, 10); each is used once.
data_split samples(std::size_t count) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<float> uniform(-10, 10);
  std::vector<float> x, y;
  for (std::size_t i = 0; i < count; ++i) {
    x.push_back(uniform(random));
    y.push_back(5 * x.back() * x.back() + 3);
  }
  dataset train(float_features{{1}, std::move(x)}, std::move(y));
  return {std::move(train), {}, "5x^2 + 3", {}};
}

int main() try {
  training_options options;
  options.devices = cpus(2);
  options.workers = 1; // one worker for any number of devices
  options.batch = 100;
  options.steps = 3000;
  options.optimizer = parse_optimizer("adam");
  options.optimizer.learning_rate = 0.1;
  training run(model, samples(options.batch * options.steps), options);
  const training_report report = run.report();
  const std::span<const float> w = run.parameters();
  std::printf("%s: w = [%.4f, %.4f, %.4f]\n", report.ended.c_str(), double{w[0]}, double{w[1]}, double{w[2]});
  const bool found = std::abs(w[0] - 5) < 0.01F && std::abs(w[1]) < 0.01F && std::abs(w[2] - 3) < 0.01F;
  return found ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "polynomial: %s\n", e.what());
  return 2;
}
