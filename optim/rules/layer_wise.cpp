#include <mailgrad/kernels/vectors.hpp>
#include <mailgrad/optim/clip.hpp>
#include <mailgrad/optim/rules/layer_wise.hpp>

#include <algorithm>
#include <cmath>

namespace mailgrad {

namespace {

double length(std::span<const float> x) { return std::sqrt(sum_of_squares(host_stream{}, x)); }

} // namespace

lars_rule::lars_rule(const lars_options& options, std::size_t shard_size,
                     std::span<const shard_variable> variables)
    : options_(options), velocity_(shard_size * sizeof(float)) {
  for (const shard_variable& v : variables) offsets_.push_back(v.offset);
}

void lars_rule::update(const variable_step& work) {
  const double of_weights = length(work.weights);
  const double of_gradient = length(work.gradient);
  double lambda = 1;
  if (of_weights > 0 && of_gradient > 0)
    lambda = options_.trust * of_weights / (of_gradient + work.decay * of_weights);
  const auto rate = static_cast<float>(work.rate * lambda);
  const auto momentum = static_cast<float>(options_.momentum);
  const auto decay = static_cast<float>(work.decay);
  float* const w = work.weights.data();
  float* const v = velocity_.as<float>().data() + offsets_[work.variable];
  const float* const g = work.gradient.data();
#pragma omp simd
  for (std::size_t i = 0; i < work.weights.size(); ++i) {
    v[i] = momentum * v[i] + rate * (g[i] + decay * w[i]);
    w[i] -= v[i];
  }
}

std::vector<optimizer_state> lars_rule::state() { return {{"velocity", velocity_.as<float>()}}; }

lamb_rule::lamb_rule(const lamb_options& options, std::size_t shard_size,
                     std::span<const shard_variable> variables)
    : options_(options), mean_(shard_size * sizeof(float)), mean_square_(shard_size * sizeof(float)) {
  std::size_t largest = 0;
  for (const shard_variable& v : variables) {
    offsets_.push_back(v.offset);
    largest = std::max(largest, v.dims.size());
  }
  step_ = block(largest * sizeof(float));
}

void lamb_rule::update(const variable_step& work) {
  const auto t = static_cast<double>(work.step);
  const auto beta1 = static_cast<float>(options_.beta1), rest1 = static_cast<float>(1 - options_.beta1);
  const auto beta2 = static_cast<float>(options_.beta2), rest2 = static_cast<float>(1 - options_.beta2);
  const auto bias1 = static_cast<float>(1 / (1 - std::pow(options_.beta1, t)));
  const auto root_bias2 = static_cast<float>(1 / std::sqrt(1 - std::pow(options_.beta2, t)));
  const auto epsilon = static_cast<float>(options_.epsilon);
  const auto decay = static_cast<float>(work.decay);
  const std::size_t count = work.weights.size();
  const std::span<float> step = step_.as<float>().first(count);
  float* const r = step.data();
  float* const m = mean_.as<float>().data() + offsets_[work.variable];
  float* const v = mean_square_.as<float>().data() + offsets_[work.variable];
  const float* const w = work.weights.data();
  const float* const g = work.gradient.data();
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) {
    m[i] = beta1 * m[i] + rest1 * g[i];
    v[i] = beta2 * v[i] + rest2 * g[i] * g[i];
    r[i] = bias1 * m[i] / (std::sqrt(v[i]) * root_bias2 + epsilon) + decay * w[i];
  }
  const double of_weights = sum_of_squares(host_stream{}, work.weights);
  const double of_step = sum_of_squares(host_stream{}, step);
  const double ratio = of_weights > 0 && of_step > 0 ? std::sqrt(of_weights / of_step) : 1;
  add_to_sum(host_stream{}, static_cast<float>(-work.rate * ratio), step, work.weights);
}

std::vector<optimizer_state> lamb_rule::state() {
  return {{"mean", mean_.as<float>()}, {"mean_square", mean_square_.as<float>()}};
}

} // namespace mailgrad
