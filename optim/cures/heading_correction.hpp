#pragma once

#include <mailgrad/optim/cures/compensating_cure.hpp>

namespace mailgrad {

/// HeLoCo: each variable of a worker's difference u is compared with the outer momentum p, by the cosine c of
/// the two. With n = |u| / (|u| + |p|):
///
///     c >= C       u stays as it is; C is 0.5 unless given
///     0 <= c < C   u is turned towards p, and keeps its length: u' is along (1 - s) u / |u| + s p / |p|, with
///                  s = (1 - c) n
///     c < 0        a part of u against p is taken away: u' = u - (-c n) c |u| p / |p|
///
/// p is (1 - m) v, with the velocity v and the momentum m of the optimiser. The velocity begins at zero, and
/// then u stays as it is. A fresh difference is corrected, too. A shard that is told no variables counts as
/// one.
///
/// Source  Al Asif, Diem, Munoz, Wolf, Jannesari & Mazaheri, "HeLoCo: efficient asynchronous
///         low-communication training under data and device heterogeneity", 2026, arXiv:2606.00271. Differs:
///         its strengths of both corrections, its cap and its weight of |p| are 1, and its weight by delay is
///         another cure's.
class heading_correction : public compensating_cure {
public:
  static constexpr cure_form form{
      "heloco:C",
      "turns each variable of a difference of local steps towards the outer momentum if their cosine is "
      "below C, by default 0.5",
      "Al Asif et al., 2026"};
  heading_correction(std::span<const double> n, const cure_site& site)
      : compensating_cure(site), keep_(n.empty() ? 0.5 : n[0]), momentum_(outer_momentum(site.optimizer)),
        variables_(site.variables) {
    if (variables_.empty()) variables_.push_back({"all weights", shape{site.shard_size}, 0});
  }
  bool sees_variables() const noexcept override { return true; }
  void require_fits(std::string_view text, const cure_setting& setting) const override {
    require_staleness(text, setting);
    require_outer_steps(text, setting);
    require_outer_momentum(text, setting);
  }
  void compensate(const stale_gradient& g, std::span<float> applied) override {
    copy(g, g.scale, applied);
    if (g.velocity.empty()) return;
    for (const shard_variable& v : variables_)
      correct(applied.subspan(v.offset, v.dims.size()), g.velocity.subspan(v.offset, v.dims.size()));
  }

private:
  void correct(std::span<float> u, std::span<const float> v) const {
    double uu = 0, uv = 0, vv = 0;
    for (std::size_t k = 0; k < u.size(); ++k) {
      const double a = u[k], b = v[k];
      uu += a * a, uv += a * b, vv += b * b;
    }
    if (uu == 0 || vv == 0) return;
    const double length = std::sqrt(uu), of_velocity = std::sqrt(vv);
    const double cosine = uv / (length * of_velocity);
    if (cosine >= keep_) return;
    const double confidence = length / (length + (1 - momentum_) * of_velocity);
    double of_u = 1, of_v = 0; // u' = of_u u + of_v v
    if (cosine < 0) {
      of_v = cosine * cosine * confidence * length / of_velocity;
    } else {
      const double turn = (1 - cosine) * confidence;
      const double turned = std::sqrt((1 - turn) * (1 - turn) + turn * turn + 2 * turn * (1 - turn) * cosine);
      of_u = (1 - turn) / turned;
      of_v = turn * length / (of_velocity * turned);
    }
    for (std::size_t k = 0; k < u.size(); ++k) u[k] = static_cast<float>(of_u * u[k] + of_v * v[k]);
  }

  double keep_;     ///< cosine from which on a difference stays as it is
  double momentum_; ///< of the optimiser
  std::vector<shard_variable> variables_;
};

} // namespace mailgrad
