#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/engine/account/training_progress.hpp>

#include <functional>
#include <memory>

namespace mailgrad {

struct staleness_tracker_options {
  std::shared_ptr<const time_source> time;
  std::function<void(const training_progress&)> on_progress; ///< called by the tracker; must not block
};

/// Gathers what devices and shards tell during a run, for the progress display and auto_rule. The exact
/// figures of a finished run do not come from here but from the shards (shard_report).
///
///     tracking --worker_progress, staleness_observed--> tracking --signals_observed--> coordinator
class staleness_tracker {
public:
  static constexpr const char* name = "mailgrad.staleness-tracker";

  staleness_tracker(caf::event_based_actor* self, staleness_tracker_options options);
  caf::behavior make_behavior() { return tracking(); }

private:
  caf::behavior tracking();
  void on_progress(const worker_progress& x);
  void add_to_window(const worker_progress& x);

  caf::event_based_actor* self_;
  staleness_tracker_options options_;
  training_progress progress_;
  staleness_histogram gaps_;
  instant started_;

  /// What was told since the last signals_observed.
  struct window {
    std::uint64_t steps = 0;
    double loss_sum = 0;
    std::int64_t span = 0;         ///< ns, of all workers
    std::int64_t barrier_wait = 0; ///< ns, of all workers
    staleness_histogram gaps;
  };
  caf::actor watcher_;
  std::uint64_t window_steps_ = 0;
  window window_;
  double staleness_ = 0; ///< the mean of the last window that had gaps
};

} // namespace mailgrad
