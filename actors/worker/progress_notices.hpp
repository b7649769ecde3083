#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/engine/account/training_progress.hpp>

#include <optional>

namespace mailgrad {

/// Tells the tracker now and then what a worker has done, and the coordinator as well, which has nothing else
/// of a worker that is lost. The first step whose loss is known is told at once, as the loss to measure
/// others by.
///
/// Threads  those of the device actor that owns it.
class progress_notices {
public:
  progress_notices(caf::event_based_actor* self, caf::actor tracker, caf::actor coordinator, rank worker,
                   notice_pace pace = {});

  /// The worker starts `now`. In a run that is resumed it has these sums from before.
  void begin(instant now, const worker_sums& before = {}) {
    last_ = now;
    told_ = before;
  }
  /// Counts one step of the worker, and its samples if their loss is known.
  void count(std::size_t samples, std::optional<float> loss);
  /// A step ended at `now`, with these sums over the whole life of the worker.
  void notify_if_due(instant now, const worker_sums& so_far);
  /// The worker ends: tells the tracker what is new. The coordinator gets the whole report.
  void notify(instant now, const worker_sums& so_far);

private:
  std::optional<worker_progress> take(instant now, const worker_sums& so_far);

  caf::event_based_actor* self_;
  caf::actor tracker_;
  caf::actor coordinator_;
  notice_pace pace_;
  worker_progress unreported_;
  double loss_sum_ = 0; ///< over the unreported samples
  bool has_told_ = false;
  instant last_{0};
  worker_sums told_; ///< in all notices so far
};

} // namespace mailgrad
