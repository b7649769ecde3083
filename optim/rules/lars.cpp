#include <mailgrad/optim/rules/lars.hpp>

#include <mailgrad/optim/clip.hpp>

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

} // namespace mailgrad
