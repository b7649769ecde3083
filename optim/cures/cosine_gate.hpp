#pragma once

#include <mailgrad/optim/cures/compensating_cure.hpp>

#include <numbers>

namespace mailgrad {

/// CGAD: an outer Adam gets the difference of a worker times exp(-A gap) (1 + cos(pi gap / T)) / 2, and 0
/// from a gap of T on. A and T are 0.1 and 16 unless given. The factor counts before the moments of Adam, so
/// an old difference has less weight among the others. A factor that all share would cancel: Adam divides by
/// the size of what it gets.
/// Source  Shah & Sun, "Cosine-gated Adam-decay: drop-in staleness-aware outer optimization for decoupled
///         DiLoCo", 2026, arXiv:2605.09126. The form is the paper's; the defaults of A and T are not.
class cosine_gate : public compensating_cure {
public:
  static constexpr cure_form form{
      "cgad:A,T",
      "differences of local steps times exp(-A gap), and a cosine that is 0 from a gap of T on, before the "
      "outer adam; by default 0.1,16",
      "Shah & Sun, 2026"};
  cosine_gate(std::span<const double> n, const cure_site& site)
      : compensating_cure(site), decay_(n.empty() ? 0.1 : n[0]), cutoff_(n.size() < 2 ? 16 : n[1]) {}
  void require_fits(std::string_view text, const cure_setting& setting) const override {
    require_staleness(text, setting);
    require_outer_steps(text, setting);
    if (cutoff_ <= 1) refuse_cure(text, "every stale difference would be dropped; take a T of more than 1");
    const auto& rule = setting.optimizer.rule;
    if (!std::holds_alternative<adam_options>(rule) && !std::holds_alternative<adamw_options>(rule))
      refuse_cure(text, "it weighs what an outer adam gets; take --outer-optimizer adam or adamw, not " +
                            std::string(mailgrad::name(setting.optimizer)));
  }
  void compensate(const stale_gradient& g, std::span<float> applied) override {
    const auto weight = static_cast<float>(weight_of(static_cast<double>(g.gap)));
    copy(g, g.scale * weight, applied);
  }

private:
  double weight_of(double gap) const {
    if (gap == 0) return 1;
    if (gap >= cutoff_) return 0;
    return std::exp(-decay_ * gap) * (1 + std::cos(std::numbers::pi * gap / cutoff_)) / 2;
  }

  double decay_;  ///< for each version
  double cutoff_; ///< in versions
};

} // namespace mailgrad
