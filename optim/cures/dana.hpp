#pragma once

#include <mailgrad/optim/cures/cure.hpp>
#include <mailgrad/optim/cures/delay_compensation.hpp>
#include <mailgrad/tensor/block.hpp>

#include <span>
#include <utility>
#include <vector>

namespace mailgrad {

/// The two that predict. DANA-Zero: a momentum for each worker, and workers compute at the weights where the
/// momenta of all will have taken the model by the time the gradient comes: v_i = G v_i + g; w -= eta v_i;
/// sent is w - eta G (v_1 + ... + v_M). The momentum is the cure's own, G = 0.9 unless given, so the
/// optimiser is plain SGD.
///
/// Source  Hakimi, Barkai, Gabel & Schuster, "Taming momentum in a distributed asynchronous environment",
///         2019, arXiv:1907.11612, Algorithm 4. dana-dc compensates the gradient first as DC-ASGD does, L = 2
///         unless given.
class predicting_dana : public cure {
public:
  predicting_dana(double momentum, double lambda, const cure_site& site)
      : momentum_(static_cast<float>(momentum)), lambda_(static_cast<float>(lambda)), sum_(bytes(site)) {
    for (std::uint32_t i = 0; i < site.workers; ++i) velocities_.emplace_back(bytes(site));
  }

  bool compensates() const noexcept override { return true; }
  bool needs_weights_read() const noexcept override { return lambda_ > 0; }
  bool predicts() const noexcept override { return true; }
  void leave(rank worker) override {
    const std::span<float> v = velocities_[worker.value].as<float>();
    const std::span<float> sum = sum_.as<float>();
    for (std::size_t k = 0; k < v.size(); ++k) sum[k] -= std::exchange(v[k], 0.0F);
  }
  std::size_t states() const noexcept override { return velocities_.size() + 1; }

  void compensate(const stale_gradient& g, std::span<float> applied) override {
    float* const v = velocities_[g.worker.value].as<float>().data();
    float* const sum = sum_.as<float>().data();
    for (std::size_t k = 0; k < applied.size(); ++k)
      applied[k] = lambda_ > 0
                       ? delay_compensated(g.scale * g.values[k], lambda_, g.weights[k], g.weights_read[k])
                       : g.scale * g.values[k];
#pragma omp simd
    for (std::size_t k = 0; k < applied.size(); ++k) {
      applied[k] = momentum_ * v[k] + applied[k];
      sum[k] += applied[k] - v[k];
      v[k] = applied[k];
    }
  }

  void predict(std::span<const float> weights, double rate, std::span<float> sent) const override {
    const float reach = static_cast<float>(rate) * momentum_;
    const float* const sum = sum_.as<float>().data();
#pragma omp simd
    for (std::size_t k = 0; k < sent.size(); ++k) sent[k] = weights[k] - reach * sum[k];
  }

private:
  static std::size_t bytes(const cure_site& site) { return site.shard_size * sizeof(float); }

  float momentum_;
  float lambda_;
  std::vector<block> velocities_; ///< by worker
  block sum_;                     ///< of the velocities
};

inline constexpr double default_dana_momentum = 0.9;

class dana_zero final : public predicting_dana {
public:
  static constexpr cure_form form{"dana-zero:G",
                                  "a momentum G for each worker, gradients at predicted weights; 0.9",
                                  "Hakimi et al., 2019"};
  dana_zero(std::span<const double> n, const cure_site& site)
      : predicting_dana(n.empty() ? default_dana_momentum : n[0], 0, site) {}
  std::string_view name() const noexcept override { return "dana-zero"; }
};

class dana_dc final : public predicting_dana {
public:
  static constexpr cure_form form{"dana-dc:G,L", "the same, and g as in dc-asgd:L; 0.9,2",
                                  "Hakimi et al., 2019"};
  dana_dc(std::span<const double> n, const cure_site& site)
      : predicting_dana(n.empty() ? default_dana_momentum : n[0], n.size() < 2 ? 2 : n[1], site) {}
  std::string_view name() const noexcept override { return "dana-dc"; }
};

/// DANA-Slim: the same steps as DANA-Zero in other coordinates, the shard's weights being Zero's predicted
/// ones: v_i = G v_i + g; w -= eta (G v_i + g).
///
/// Source  as dana_zero, Algorithm 5. Differs: v_i lies at the shard, not at the worker; the arithmetic is
///         the same.
class dana_slim final : public cure {
public:
  static constexpr cure_form form{"dana-slim:G", "the steps of dana-zero without predicting",
                                  "Hakimi et al., 2019"};
  dana_slim(std::span<const double> n, const cure_site& site)
      : momentum_(static_cast<float>(n.empty() ? default_dana_momentum : n[0])) {
    for (std::uint32_t i = 0; i < site.workers; ++i)
      velocities_.emplace_back(site.shard_size * sizeof(float));
  }

  std::string_view name() const noexcept override { return "dana-slim"; }
  bool compensates() const noexcept override { return true; }
  std::size_t states() const noexcept override { return velocities_.size(); }
  void compensate(const stale_gradient& g, std::span<float> applied) override {
    float* const v = velocities_[g.worker.value].as<float>().data();
#pragma omp simd
    for (std::size_t k = 0; k < applied.size(); ++k) {
      const float value = g.scale * g.values[k];
      v[k] = momentum_ * v[k] + value;
      applied[k] = momentum_ * v[k] + value;
    }
  }

private:
  float momentum_;
  std::vector<block> velocities_; ///< by worker
};

} // namespace mailgrad
