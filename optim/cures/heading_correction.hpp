#pragma once

#include <mailgrad/optim/cures/cure.hpp>

#include <memory>
#include <span>
#include <string_view>
#include <vector>

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
class heading_correction final : public cure {
public:
  static constexpr cure_form form{
      "heloco:C",
      "turns each variable of a difference of local steps towards the outer momentum if their cosine is "
      "below C, by default 0.5",
      "Al Asif et al., 2026"};
  heading_correction(std::span<const double> n, const cure_site& site);

  std::string_view name() const noexcept override { return "heloco"; }
  bool compensates() const noexcept override { return true; }
  bool sees_variables() const noexcept override { return true; }
  void keep(archive& a) override { a.version(1); } // the momentum is the optimiser's
  void require_fits(std::string_view text, const cure_setting& setting) const override;
  void compensate(const stale_gradient& g, std::span<float> applied) override;

private:
  void correct(std::span<float> u, std::span<const float> v) const;

  std::shared_ptr<device_queue> at_;
  double keep_;     ///< cosine from which on a difference stays as it is
  double momentum_; ///< of the optimiser
  std::vector<shard_variable> variables_;
};

} // namespace mailgrad
