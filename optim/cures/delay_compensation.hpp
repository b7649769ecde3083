#pragma once

#include <mailgrad/optim/cures/cure.hpp>
#include <mailgrad/tensor/block.hpp>

#include <cmath>
#include <span>

namespace mailgrad {

/// The gradient at `w`, to first order, from the gradient `g` at `w_read`: the curvature is taken for lambda
/// g^2.
inline float delay_compensated(float g, float lambda, float w, float w_read) noexcept {
  return g + lambda * g * g * (w - w_read);
}

/// DC-ASGD with a constant lambda, 0.04 unless given: g + L g^2 (w - r).
///
/// Source  Zheng, Meng, Wang, Chen, Yu, Ma & Liu, "Asynchronous stochastic gradient descent with delay
///         compensation", ICML 2017, arXiv:1609.08326, Algorithm 2
class delay_compensation final : public cure {
public:
  static constexpr cure_form form{"dc-asgd:L", "g + L g^2 (weights now - weights read), L = 0.04: DC-ASGD-c",
                                  "Zheng et al., ICML 2017"};
  delay_compensation(std::span<const double> n, const cure_site&)
      : lambda_(n.empty() ? 0.04F : static_cast<float>(n[0])) {}

  std::string_view name() const noexcept override { return "dc-asgd"; }
  bool compensates() const noexcept override { return true; }
  bool needs_weights_read() const noexcept override { return true; }
  void compensate(const stale_gradient& g, std::span<float> applied) override {
#pragma omp simd
    for (std::size_t k = 0; k < applied.size(); ++k)
      applied[k] = delay_compensated(g.scale * g.values[k], lambda_, g.weights[k], g.weights_read[k]);
  }

private:
  float lambda_;
};

/// DC-ASGD with lambda_t = L / sqrt(mean square of the gradients + 1e-7), L = 2 unless given.
///
/// Source  as delay_compensation, Algorithm 2 with equation 14; the mean square keeps 0.95 of its past.
class adaptive_delay_compensation final : public cure {
public:
  static constexpr cure_form form{"dc-asgd-a:L", "the same with L / sqrt(mean square of g), L = 2: DC-ASGD-a",
                                  "Zheng et al., ICML 2017"};
  adaptive_delay_compensation(std::span<const double> n, const cure_site& site)
      : lambda_(n.empty() ? 2.0F : static_cast<float>(n[0])), mean_square_(site.shard_size * sizeof(float)) {}

  std::string_view name() const noexcept override { return "dc-asgd-a"; }
  bool compensates() const noexcept override { return true; }
  bool needs_weights_read() const noexcept override { return true; }
  std::size_t states() const noexcept override { return 1; }
  void compensate(const stale_gradient& g, std::span<float> applied) override {
    constexpr float past = 0.95F;
    constexpr float epsilon = 1e-7F;
    float* const squares = mean_square_.as<float>().data();
#pragma omp simd
    for (std::size_t k = 0; k < applied.size(); ++k) {
      const float value = g.scale * g.values[k];
      squares[k] = past * squares[k] + (1 - past) * value * value;
      const float lambda = lambda_ / std::sqrt(squares[k] + epsilon);
      applied[k] = delay_compensated(value, lambda, g.weights[k], g.weights_read[k]);
    }
  }

private:
  float lambda_;
  block mean_square_;
};

} // namespace mailgrad
