#include <mailgrad/optim/policies/auto_rule.hpp>

#include <mailgrad/options/settings.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <stdexcept>

namespace mailgrad {

namespace {

/// Part of the first loss below which a rise is chance.
constexpr double least_rise = 0.01;
constexpr double stale = 0.5;
constexpr double most_bearable = 0.8;

template <class... Figures>
std::string in_words(const char* format, Figures... figures) {
  char text[160];
  std::snprintf(text, sizeof text, format, figures...);
  return text;
}

} // namespace

auto_options parse_auto(std::string_view text) {
  settings words("policy", text);
  auto_options o;
  words.take("window", o.window);
  words.take("wait", o.wait, 0, 1);
  words.take("harm", o.harm, 0, std::numeric_limits<double>::infinity());
  words.require_nothing_left();
  if (o.wait == 0) throw std::invalid_argument("policy 'auto': wait must be more than 0");
  if (o.window == 0) throw std::invalid_argument("policy 'auto': window must be at least 1, not 0");
  return o;
}

std::optional<switch_advice> auto_rule::judge(const run_signals& s, std::string_view now) {
  const auto steps = static_cast<unsigned long long>(s.steps);
  const double best = best_loss_;
  const bool harmed = does_harm(s.loss);
  if (!first_loss_) first_loss_ = s.loss;
  best_loss_ = std::min(best_loss_, s.loss);
  if (now == first_policy && s.barrier_share > bearable_)
    return switch_advice{
        "async", in_words("workers waited %.0f %% of the last %llu steps at the barrier, more than %.0f %%",
                          100 * s.barrier_share, steps, 100 * bearable_)};
  if (now != first_policy && harmed && s.staleness >= stale) {
    bearable_ = std::max(bearable_, std::min(most_bearable, 2 * bearable_));
    return switch_advice{
        std::string(first_policy),
        in_words("the loss of the last %llu steps is %.4f, %.4f above its best, at a mean staleness of %.1f",
                 steps, s.loss, s.loss - best, s.staleness)};
  }
  return {};
}

bool auto_rule::does_harm(double loss) const {
  if (!first_loss_) return false;
  const double rise = loss - best_loss_;
  return rise > options_.harm * std::abs(best_loss_) && rise > least_rise * std::abs(*first_loss_);
}

} // namespace mailgrad
