#pragma once

#include <mailgrad/optim/cures/compensating_cure.hpp>

namespace mailgrad {

/// MLA: workers begin their local steps from the weights to which the outer momentum alone will have taken
/// the model when their difference comes, after K updates: w - eta (m + m^2 + ... + m^K) v, with momentum m,
/// velocity v and learning rate eta. K is M - 1 unless given, the mean gap of async. The rule nesterov has
/// taken one of these steps before, so each power of m is one higher there.
/// Source  Ajanthan, Ramasinghe, Avraham, Zuo & Long, "Momentum look-ahead for asynchronous distributed
///         low-communication training", MCDC at ICLR 2025. The direction is the paper's; how far it is
///         follows from K here.
class momentum_look_ahead : public compensating_cure {
public:
  static constexpr cure_form form{
      "mla:K",
      "workers begin local steps where the outer momentum takes the weights in K updates; by default M - 1",
      "Ajanthan et al., 2025"};
  momentum_look_ahead(std::span<const double> n, const cure_site& site)
      : compensating_cure(site), reach_(reach_of(site.optimizer, n.empty() ? site.workers - 1.0 : n[0])) {}
  bool compensates() const noexcept override { return false; }
  bool predicts() const noexcept override { return true; }
  void require_fits(std::string_view text, const cure_setting& setting) const override {
    require_staleness(text, setting);
    require_outer_steps(text, setting);
    require_outer_momentum(text, setting);
    require_always_stale(text, setting, "workers would begin ahead of weights that nobody moves meanwhile");
  }
  void predict(const weights_to_send& w, std::span<float> sent) const override {
    if (w.velocity.empty()) return map(scaled_copy{1}, std::array{w.weights.data()}, {sent});
    map(look_ahead{static_cast<float>(w.rate * reach_)}, std::array{w.weights.data(), w.velocity.data()},
        {sent});
  }

private:
  /// The sum of the powers of the momentum.
  static double reach_of(const optimizer_options& rule, double updates) {
    const double m = outer_momentum(rule);
    const double sum = m == 1 ? updates : m * (1 - std::pow(m, updates)) / (1 - m);
    return std::holds_alternative<nesterov_options>(rule.rule) ? m * sum : sum;
  }

  double reach_; ///< in velocities, at a learning rate of 1
};

} // namespace mailgrad
