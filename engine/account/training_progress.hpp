#pragma once

#include <mailgrad/engine/account/time_source.hpp>
#include <mailgrad/options/interval.hpp>

#include <algorithm>
#include <cstddef>
#include <span>

namespace mailgrad {

/// The progress of a run.
struct training_progress {
  std::uint64_t steps = 0;   ///< mini-batches trained, by all workers
  std::uint64_t before = 0;  ///< of these, in earlier processes of a run that was resumed
  std::uint64_t samples = 0; ///< in this process
  double loss = 0;           ///< mean over the steps since the last report
  double staleness_mean = 0; ///< version gap, over the run so far
  instant elapsed{0};
};

/// A shard or a worker sends this to the coordinator: one wait in words, as "shard 0 waits for worker 1".
struct wait_reason {
  std::string what;
  std::int64_t span = 0; ///< ns that it has lasted
};

/// How often a worker tells of its steps during a run, and a shard of the gradients that it has judged.
struct notice_pace {
  /// More often would take time from the steps, and fill the mailbox of whoever is told.
  static constexpr instant shortest = std::chrono::milliseconds{1};

  instant span = std::chrono::milliseconds{100};
  std::uint64_t steps = 0; ///< or gradients; 0: however many
  /// Whether it is time to tell of so many steps or gradients.
  bool due(instant since_last, std::uint64_t unreported) const noexcept {
    return since_last >= span || (steps > 0 && unreported >= steps && since_last >= shortest);
  }
  friend bool operator==(const notice_pace&, const notice_pace&) = default;
};

/// The pace of each of so many workers at which nothing that is wanted each interval comes much too late. It
/// is never slower than ten times a second.
inline notice_pace pace_for(std::span<const interval> wanted, std::uint64_t steps_per_epoch,
                            std::size_t workers) {
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
