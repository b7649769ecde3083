#pragma once

#include <mailgrad/kernels/vectors.hpp>
#include <mailgrad/optim/cures/cure.hpp>
#include <mailgrad/optim/kept_memory.hpp>

#include <array>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace mailgrad {

/// Writes or reads the velocity of each worker.
inline void keep_velocities(archive& a, std::vector<memory>& velocities, device_queue& at) {
  std::size_t workers = velocities.size();
  a.field("workers", workers);
  if (workers != velocities.size())
    throw archive_error("a cure kept a velocity for each of " + std::to_string(workers) +
                        " workers; resume with as many");
  for (std::size_t r = 0; r < workers; ++r)
    keep_floats(a, "velocity " + std::to_string(r), velocities[r], at);
}

/// Requires plain SGD, because DANA has a momentum of its own.
inline void require_dana(std::string_view text, const cure_setting& setting) {
  require_staleness(text, setting);
  require_single_gradients(text, setting);
  if (!std::holds_alternative<sgd_options>(setting.optimizer.rule))
    refuse_cure(text, "it brings a momentum of its own; take " + std::string(optimizer_option(setting)) +
                          " sgd, not " + std::string(mailgrad::name(setting.optimizer)));
}

/// DANA-Zero and DANA-DC, which predict weights. The shard keeps a momentum for each worker. Workers compute
/// at the weights that the momenta of all will have reached when the gradient arrives: v_i = G v_i + g;
/// w -= eta v_i; sent is w - eta G (v_1 + ... + v_M). G is 0.9 unless given, and the optimiser is plain SGD.
///
/// Source  Hakimi, Barkai, Gabel & Schuster, "Taming momentum in a distributed asynchronous environment",
///         2019, arXiv:1907.11612, Algorithm 4. dana-dc compensates the gradient first as DC-ASGD does, L = 2
///         unless given.
class predicting_dana : public cure {
public:
  predicting_dana(double momentum, double lambda, const cure_site& site)
      : at_(site.at), momentum_(static_cast<float>(momentum)), lambda_(static_cast<float>(lambda)),
        sum_(site.at->allocate(bytes(site))) {
    for (std::uint32_t i = 0; i < site.workers; ++i) velocities_.push_back(site.at->allocate(bytes(site)));
  }

  bool compensates() const noexcept override { return true; }
  bool needs_weights_read() const noexcept override { return lambda_ > 0; }
  bool predicts() const noexcept override { return true; }
  void leave(rank worker) override {
    map_weights(at_->where(), forgotten_velocity{}, {},
                std::array{of(velocities_[worker.value]).data(), of(sum_).data()}, of(sum_).size());
  }
  std::size_t states() const noexcept override { return velocities_.size() + 1; }
  void keep(archive& a) override {
    a.version(1);
    keep_velocities(a, velocities_, *at_);
    keep_floats(a, "sum", sum_, *at_);
  }
  void require_fits(std::string_view text, const cure_setting& setting) const override {
    require_dana(text, setting);
  }

  void compensate(const stale_gradient& g, std::span<float> applied) override {
    const std::array<float*, 1> out{applied.data()};
    if (lambda_ > 0)
      map_weights(at_->where(), delay_compensation_step{g.scale, lambda_}, reads_of(g), out, applied.size());
    else
      map_weights(at_->where(), scaled_copy{g.scale}, std::array{g.values.data()}, out, applied.size());
    map_weights(at_->where(), worker_velocity_step{momentum_}, {},
                std::array{of(velocities_[g.worker.value]).data(), of(sum_).data(), applied.data()},
                applied.size());
  }

  void predict(const weights_to_send& w, std::span<float> sent) const override {
    const float reach = static_cast<float>(w.rate) * momentum_;
    map_weights(at_->where(), look_ahead{reach},
                std::array{w.weights.data(), sum_.on<float>(at_->where()).data()}, std::array{sent.data()},
                sent.size());
  }

private:
  static std::size_t bytes(const cure_site& site) { return site.shard_size * sizeof(float); }
  std::span<float> of(memory& values) const { return values.on<float>(at_->where()); }

  std::shared_ptr<device_queue> at_;
  float momentum_;
  float lambda_;
  std::vector<memory> velocities_; ///< by worker
  memory sum_;                     ///< of the velocities
};

inline constexpr double default_dana_momentum = 0.9;

class dana_zero final : public predicting_dana {
public:
  static constexpr cure_form form{
      "dana-zero:G", "a momentum G for each worker, by default 0.9, and gradients at predicted weights",
      "Hakimi et al., 2019"};
  dana_zero(std::span<const double> n, const cure_site& site)
      : predicting_dana(n.empty() ? default_dana_momentum : n[0], 0, site) {}
  std::string_view name() const noexcept override { return "dana-zero"; }
};

class dana_dc final : public predicting_dana {
public:
  static constexpr cure_form form{"dana-dc:G,L",
                                  "dana-zero with gradients corrected as by dc-asgd:L; by default 0.9,2",
                                  "Hakimi et al., 2019"};
  dana_dc(std::span<const double> n, const cure_site& site)
      : predicting_dana(n.empty() ? default_dana_momentum : n[0], n.size() < 2 ? 2 : n[1], site) {}
  std::string_view name() const noexcept override { return "dana-dc"; }
};

/// DANA-Slim makes the steps of DANA-Zero in other coordinates: the shard's weights are the predicted weights
/// of DANA-Zero. v_i = G v_i + g; w -= eta (G v_i + g).
///
/// Source  as dana_zero, Algorithm 5. Differs: v_i lies at the shard, not at the worker; the arithmetic is
///         the same.
class dana_slim final : public cure {
public:
  static constexpr cure_form form{"dana-slim:G",
                                  "the steps of dana-zero without predicted weights; by default 0.9",
                                  "Hakimi et al., 2019"};
  dana_slim(std::span<const double> n, const cure_site& site)
      : at_(site.at), momentum_(static_cast<float>(n.empty() ? default_dana_momentum : n[0])) {
    for (std::uint32_t i = 0; i < site.workers; ++i)
      velocities_.push_back(site.at->allocate(site.shard_size * sizeof(float)));
  }

  std::string_view name() const noexcept override { return "dana-slim"; }
  bool compensates() const noexcept override { return true; }
  std::size_t states() const noexcept override { return velocities_.size(); }
  void keep(archive& a) override {
    a.version(1);
    keep_velocities(a, velocities_, *at_);
  }
  void require_fits(std::string_view text, const cure_setting& setting) const override {
    require_dana(text, setting);
  }
  void compensate(const stale_gradient& g, std::span<float> applied) override {
    float* const v = velocities_[g.worker.value].on<float>(at_->where()).data();
    map_weights(at_->where(), ahead_velocity_step{g.scale, momentum_}, std::array{g.values.data()},
                std::array{v, applied.data()}, applied.size());
  }

private:
  std::shared_ptr<device_queue> at_;
  float momentum_;
  std::vector<memory> velocities_; ///< by worker
};

} // namespace mailgrad
