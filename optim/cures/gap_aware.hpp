#pragma once

#include <mailgrad/optim/cures/compensating_cure.hpp>

#include <utility>

namespace mailgrad {

/// Each element of a gradient is divided by 1 + |w - r| / C. The quotient |w - r| / C is the distance that
/// the weight has moved since it was read, in steps of usual length. C = eta (sqrt(r2) + 1e-8), where r2 is a
/// mean square in which each sample counts 0.999 of the next. A sample is the gradient or, with momentum, the
/// velocity after an update. The zero velocity before the first update is no sample, so the first gradient,
/// which is fresh, is applied unchanged.
/// Source  Barkai, Hakimi & Schuster, "Gap-aware mitigation of gradient staleness", ICLR 2020,
///         arXiv:1909.10802. Differs: a weight decay that the optimiser adds is not divided.
class gap_aware : public compensating_cure {
public:
  static constexpr cure_form form{"gap-aware",
                                  "divides each element by 1 + |weight now - weight read| / usual step",
                                  "Barkai et al., ICLR 2020"};
  gap_aware(std::span<const double>, const cure_site& site)
      : compensating_cure(site), rate_(static_cast<float>(site.learning_rate)), mean_square_(allocate(site)) {
  }
  bool needs_weights_read() const noexcept override { return true; }
  std::size_t states() const noexcept override { return 1; }
  void keep(archive& a) override {
    a.version(1);
    a.field("updated", updated_);
    a.field("remembered", remembered_);
    keep_state(a, "mean_square", mean_square_);
  }
  void require_fits(std::string_view text, const cure_setting& setting) const override {
    require_staleness(text, setting);
    require_single_gradients(text, setting);
    const auto& rule = setting.optimizer.rule;
    if (!std::holds_alternative<sgd_options>(rule) && !std::holds_alternative<momentum_options>(rule) &&
        !std::holds_alternative<nesterov_options>(rule))
      refuse_cure(text, "it measures gaps in steps of sgd, momentum or nesterov, not of " +
                            std::string(mailgrad::name(setting.optimizer)));
  }
  void compensate(const stale_gradient& g, std::span<float> applied) override {
    constexpr double past = 0.999;
    copy(g, g.scale, applied);
    const bool updated = std::exchange(updated_, true);
    if (!updated && !g.velocity.empty()) return;
    remembered_ *= past;
    const auto unbiased = static_cast<float>(1 / (1 - remembered_));
    const float* const steps = g.velocity.empty() ? applied.data() : g.velocity.data();
    map(gap_aware_step{rate_, unbiased}, std::array{steps, g.weights.data(), g.weights_read.data()},
        {of(mean_square_), applied});
  }

private:
  float rate_;
  bool updated_ = false;  ///< a gradient has been applied before
  double remembered_ = 1; ///< past^t: the part of the mean square that is its first zero
  memory mean_square_;
};

} // namespace mailgrad
