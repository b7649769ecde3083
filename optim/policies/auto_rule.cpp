#include <mailgrad/optim/policies/auto_rule.hpp>

#include <algorithm>
#include <cstdio>

namespace mailgrad {

namespace {

/// A loss this much above the best of all windows is no chance of the mini-batches.
constexpr double harm = 1.2;
constexpr double stale = 0.5;
constexpr double most_bearable = 0.8;

template <class... Figures>
std::string in_words(const char* format, Figures... figures) {
  char text[160];
  std::snprintf(text, sizeof text, format, figures...);
  return text;
}

} // namespace

std::optional<switch_advice> auto_rule::judge(const run_signals& s, std::string_view now) {
  const auto steps = static_cast<unsigned long long>(s.steps);
  const double best = best_loss_;
  best_loss_ = std::min(best_loss_, s.loss);
  if (now == first_policy && s.barrier_share > bearable_)
    return switch_advice{
        "async", in_words("workers waited %.0f %% of the last %llu steps at the barrier, more than %.0f %%",
                          100 * s.barrier_share, steps, 100 * bearable_)};
  if (now != first_policy && s.loss > harm * best && s.staleness >= stale) {
    bearable_ = std::min(most_bearable, 2 * bearable_);
    return switch_advice{
        std::string(first_policy),
        in_words("the loss of the last %llu steps is %.4f, %.0f %% above its best, at a mean staleness of "
                 "%.1f",
                 steps, s.loss, 100 * (s.loss / best - 1), s.staleness)};
  }
  return {};
}

} // namespace mailgrad
