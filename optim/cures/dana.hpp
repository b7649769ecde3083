#pragma once

#include <mailgrad/optim/cures/compensating_cure.hpp>

namespace mailgrad {

/// What the forms of DANA share: the shard keeps a momentum for each worker, and its optimiser is plain SGD.
class dana : public compensating_cure {
public:
  static constexpr double usual_momentum = 0.9;
  std::size_t states() const noexcept override { return velocities_.size(); }
  void keep(archive& a) override {
    a.version(1);
    std::size_t workers = velocities_.size();
    a.field("workers", workers);
    if (workers != velocities_.size())
      throw archive_error("a cure kept a velocity for each of " + std::to_string(workers) +
                          " workers; resume with as many");
    for (std::size_t r = 0; r < workers; ++r) keep_state(a, "velocity " + std::to_string(r), velocities_[r]);
  }
  void require_fits(std::string_view text, const cure_setting& setting) const override {
    require_staleness(text, setting);
    require_single_gradients(text, setting);
    if (!std::holds_alternative<sgd_options>(setting.optimizer.rule))
      refuse_cure(text, "it brings a momentum of its own; take " + std::string(optimizer_option(setting)) +
                            " sgd, not " + std::string(mailgrad::name(setting.optimizer)));
  }

protected:
  dana(double momentum, const cure_site& site)
      : compensating_cure(site), momentum_(static_cast<float>(momentum)) {
    for (std::uint32_t i = 0; i < site.workers; ++i) velocities_.push_back(allocate(site));
  }
  std::span<float> velocity_of(rank worker) { return of(velocities_[worker.value]); }

  float momentum_;

private:
  std::vector<memory> velocities_; ///< by worker
};

/// DANA-Zero and DANA-DC, which predict weights. The shard keeps a momentum for each worker. Workers compute
/// at the weights that the momenta of all will have reached when the gradient arrives: v_i = G v_i + g;
/// w -= eta v_i; sent is w - eta G (v_1 + ... + v_M). G is 0.9 unless given, and the optimiser is plain SGD.
/// Source  Hakimi, Barkai, Gabel & Schuster, "Taming momentum in a distributed asynchronous environment",
///         2019, arXiv:1907.11612, Algorithm 4. dana-dc compensates the gradient first as DC-ASGD does, L = 2
///         unless given.
class predicting_dana : public dana {
public:
  predicting_dana(double momentum, double lambda, const cure_site& site)
      : dana(momentum, site), lambda_(static_cast<float>(lambda)), sum_(allocate(site)) {}
  bool needs_weights_read() const noexcept override { return lambda_ > 0; }
  bool predicts() const noexcept override { return true; }
  void leave(rank worker) override { map(forgotten_velocity{}, {}, {velocity_of(worker), of(sum_)}); }
  std::size_t states() const noexcept override { return dana::states() + 1; }
  void keep(archive& a) override {
    dana::keep(a);
    keep_state(a, "sum", sum_);
  }
  void compensate(const stale_gradient& g, std::span<float> applied) override {
    if (lambda_ > 0)
      map(delay_compensation_step{g.scale, lambda_}, reads_of(g), {applied});
    else
      copy(g, g.scale, applied);
    map(worker_velocity_step{momentum_}, {}, {velocity_of(g.worker), of(sum_), applied});
  }
  void predict(const weights_to_send& w, std::span<float> sent) const override {
    const float reach = static_cast<float>(w.rate) * momentum_;
    map(look_ahead{reach}, std::array{w.weights.data(), of(sum_).data()}, {sent});
  }

private:
  float lambda_;
  memory sum_; ///< of the velocities
};

class dana_zero : public predicting_dana {
public:
  static constexpr cure_form form{
      "dana-zero:G", "a momentum G for each worker, by default 0.9, and gradients at predicted weights",
      "Hakimi et al., 2019"};
  dana_zero(std::span<const double> n, const cure_site& site)
      : predicting_dana(n.empty() ? usual_momentum : n[0], 0, site) {}
};

class dana_dc : public predicting_dana {
public:
  static constexpr cure_form form{"dana-dc:G,L",
                                  "dana-zero with gradients corrected as by dc-asgd:L; by default 0.9,2",
                                  "Hakimi et al., 2019"};
  dana_dc(std::span<const double> n, const cure_site& site)
      : predicting_dana(n.empty() ? usual_momentum : n[0], n.size() < 2 ? 2 : n[1], site) {}
};

/// DANA-Slim makes the steps of DANA-Zero in other coordinates: the shard's weights are the predicted weights
/// of DANA-Zero. v_i = G v_i + g; w -= eta (G v_i + g).
/// Source  as dana_zero, Algorithm 5. Differs: v_i lies at the shard, not at the worker; the arithmetic is
///         the same.
class dana_slim : public dana {
public:
  static constexpr cure_form form{"dana-slim:G",
                                  "the steps of dana-zero without predicted weights; by default 0.9",
                                  "Hakimi et al., 2019"};
  dana_slim(std::span<const double> n, const cure_site& site)
      : dana(n.empty() ? usual_momentum : n[0], site) {}
  void compensate(const stale_gradient& g, std::span<float> applied) override {
    map(ahead_velocity_step{g.scale, momentum_}, std::array{g.values.data()},
        {velocity_of(g.worker), applied});
  }
};

} // namespace mailgrad
