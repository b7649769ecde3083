#pragma once

#include <mailgrad/actors/messages.hpp>
#include <mailgrad/actors/training_progress.hpp>

#include <functional>
#include <memory>

namespace mailgrad {

struct staleness_tracker_options {
  std::shared_ptr<const time_source> time;
  std::function<void(const training_progress&)> on_progress; ///< called by the tracker; must not block
};

/// Gathers what devices and shards notice while a run goes on, so that somebody can watch it. The exact
/// figures of a finished run come from the shards themselves (shard_report), not from here.
///
///     tracking --worker_progress, staleness_observed--> tracking
class staleness_tracker {
public:
  static constexpr const char* name = "mailgrad.staleness-tracker";

  staleness_tracker(caf::event_based_actor* self, staleness_tracker_options options);
  caf::behavior make_behavior() { return tracking(); }

private:
  caf::behavior tracking();
  void on_progress(const worker_progress& x);

  caf::event_based_actor* self_;
  staleness_tracker_options options_;
  training_progress progress_;
  staleness_histogram gaps_;
  instant started_;
};

} // namespace mailgrad
