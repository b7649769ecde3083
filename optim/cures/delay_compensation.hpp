#pragma once

#include <mailgrad/optim/cures/compensating_cure.hpp>

namespace mailgrad {

/// DC-ASGD with a constant lambda, 0.04 unless given: g + L g^2 (w - r).
/// Source  Zheng, Meng, Wang, Chen, Yu, Ma & Liu, "Asynchronous stochastic gradient descent with delay
///         compensation", ICML 2017, arXiv:1609.08326, Algorithm 2
class delay_compensation : public compensating_cure {
public:
  static constexpr cure_form form{
      "dc-asgd:L",
      "adds L g^2 (weights now - weights read) to the gradient g, by default L = 0.04: DC-ASGD-c",
      "Zheng et al., ICML 2017"};
  delay_compensation(std::span<const double> n, const cure_site& site)
      : compensating_cure(site), lambda_(n.empty() ? 0.04F : static_cast<float>(n[0])) {}
  bool needs_weights_read() const noexcept override { return true; }
  void compensate(const stale_gradient& g, std::span<float> applied) override {
    map(delay_compensation_step{g.scale, lambda_}, reads_of(g), {applied});
  }

private:
  float lambda_;
};

/// DC-ASGD with lambda_t = L / sqrt(mean square of the gradients + 1e-7), L = 2 unless given.
/// Source  as delay_compensation, Algorithm 2 with equation 14; the mean square keeps 0.95 of its past.
class adaptive_delay_compensation : public compensating_cure {
public:
  static constexpr cure_form form{
      "dc-asgd-a:L", "the same with L / sqrt(mean square of g) for L, by default L = 2: DC-ASGD-a",
      "Zheng et al., ICML 2017"};
  adaptive_delay_compensation(std::span<const double> n, const cure_site& site)
      : compensating_cure(site), lambda_(n.empty() ? 2.0F : static_cast<float>(n[0])),
        mean_square_(allocate(site)) {}

  bool needs_weights_read() const noexcept override { return true; }
  std::size_t states() const noexcept override { return 1; }
  void keep(archive& a) override {
    a.version(1);
    keep_state(a, "mean_square", mean_square_);
  }
  void compensate(const stale_gradient& g, std::span<float> applied) override {
    map(adaptive_delay_compensation_step{g.scale, lambda_}, reads_of(g), {of(mean_square_), applied});
  }

private:
  float lambda_;
  memory mean_square_;
};

} // namespace mailgrad
