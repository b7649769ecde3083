#include <mailgrad/engine/account/training_progress.hpp>

#include <algorithm>

namespace mailgrad {

notice_pace pace_for(std::span<const interval> wanted, std::uint64_t steps_per_epoch, std::size_t workers) {
  notice_pace pace;
  for (const interval& each : wanted) {
    if (each.span.count() > 0) pace.span = std::min(pace.span, std::max(each.span, notice_pace::shortest));
    const std::uint64_t steps = each.epochs > 0 ? each.epochs * steps_per_epoch : each.steps;
    if (steps == 0) continue;
    const std::uint64_t own = std::max<std::uint64_t>(1, steps / std::max<std::size_t>(1, workers));
    pace.steps = pace.steps == 0 ? own : std::min(pace.steps, own);
  }
  return pace;
}

} // namespace mailgrad
