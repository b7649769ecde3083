#include <mailgrad/optim/policies/auto_rule.hpp>
#include <mailgrad/options/settings.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace mailgrad {

auto_options parse_auto(std::string_view text) {
  settings words("policy", text);
  auto_options o;
  o.window = words.take_whole("window", o.window, 1);
  o.wait = words.take_number("wait", o.wait, 0, 1);
  o.harm = words.take_number("harm", o.harm, 0, unlimited);
  words.require_nothing_left();
  if (o.wait == 0) words.fail("wait must be more than 0");
  return o;
}

std::optional<switch_advice> auto_rule::judge(const run_signals& s, std::string_view now) {
  constexpr double stale = 0.5, most_bearable = 0.8;
  const double best = best_loss_;
  const bool harmed = does_harm(s.loss);
  if (!first_loss_) first_loss_ = s.loss;
  best_loss_ = std::min(best_loss_, s.loss);
  if (now == first_policy && s.barrier_share > bearable_)
    return switch_advice{
        "async",
        fmt::format("workers waited {:.3g} % of the last {} steps at the barrier, more than {:.3g} %",
                    100 * s.barrier_share, s.steps, 100 * bearable_)};
  if (now != first_policy && harmed && s.staleness >= stale) {
    bearable_ = std::max(bearable_, std::min(most_bearable, 2 * bearable_));
    return switch_advice{
        std::string(first_policy),
        fmt::format("the loss of the last {} steps is {:.4f}, {:.4f} above its best, at a mean staleness of "
                    "{:.1f}",
                    s.steps, s.loss, s.loss - best, s.staleness)};
  }
  return {};
}

bool auto_rule::does_harm(double loss) const {
  constexpr double least_rise = 0.01; // below this fraction of the first loss, a rise is taken for noise
  if (!first_loss_) return false;
  const double rise = loss - best_loss_;
  return rise > options_.harm * std::abs(best_loss_) && rise > least_rise * std::abs(*first_loss_);
}

} // namespace mailgrad
