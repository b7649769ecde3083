#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/engine/account/notice_pace.hpp>

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

  /// The worker starts `now`. In a run that is resumed it has waited before, for so many ns.
  void begin(instant now, std::int64_t barrier_wait = 0, std::int64_t other_wait = 0) {
    last_ = now;
    barrier_wait_reported_ = barrier_wait;
    other_wait_reported_ = other_wait;
  }
  /// Counts one step of the worker, and its samples if their loss is known.
  void count(std::size_t samples, std::optional<float> loss);
  /// A step ended at `now`. The waits are how long the worker has waited in all, in ns: at barriers, and at a
  /// bound or for batches.
  void notify_if_due(instant now, std::int64_t barrier_wait, std::int64_t other_wait);
  /// The worker ends: tells the tracker what is new. The coordinator gets the whole report.
  void notify(instant now, std::int64_t barrier_wait, std::int64_t other_wait);

private:
  std::optional<worker_progress> take(instant now, std::int64_t barrier_wait, std::int64_t other_wait);

  caf::event_based_actor* self_;
  caf::actor tracker_;
  caf::actor coordinator_;
  notice_pace pace_;
  worker_progress unreported_;
  double loss_sum_ = 0; ///< over the unreported samples
  bool has_told_ = false;
  instant last_{0};
  std::int64_t barrier_wait_reported_ = 0; ///< ns, in all notices so far
  std::int64_t other_wait_reported_ = 0;   ///< likewise
};

} // namespace mailgrad
