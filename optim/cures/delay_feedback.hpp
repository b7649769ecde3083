#pragma once

#include <mailgrad/optim/cures/compensating_cure.hpp>

namespace mailgrad {

/// Feeds back what the last update lacked: g + L (g - p), L = 1 unless given. p is the gradient that the
/// shard got before g, of whichever worker. Where every gradient is one version old, g is the gradient that
/// the last update should have had in place of p.
/// Source  after the correction of Zmushko, Petrov, Abdullaev, Khrushchev & Horvath, "One-step gradient delay
///         is not a barrier", ICML 2026, arXiv:2606.30634. Differs: the formula is derived here.
class delay_feedback : public compensating_cure {
public:
  static constexpr cure_form form{
      "delay-feedback:L",
      "adds L (gradient - the one before it), which the last update lacked; by default L = 1",
      "after Zmushko et al., 2026"};
  delay_feedback(std::span<const double> n, const cure_site& site)
      : compensating_cure(site), strength_(n.empty() ? 1.0F : static_cast<float>(n[0])),
        before_(allocate(site)) {}

  std::size_t states() const noexcept override { return 1; }
  void keep(archive& a) override {
    a.version(1);
    a.field("has_one_before", has_one_before_);
    keep_state(a, "before", before_);
  }
  void compensate(const stale_gradient& g, std::span<float> applied) override {
    const float strength = g.gap > 0 && has_one_before_ ? strength_ : 0;
    map(feedback_step{g.scale, strength}, std::array{g.values.data()}, {of(before_), applied});
    has_one_before_ = true;
  }

private:
  float strength_;
  memory before_; ///< the last gradient, clipped
  bool has_one_before_ = false;
};

} // namespace mailgrad
