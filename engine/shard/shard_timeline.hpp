#pragma once

#include <mailgrad/engine/account/time_source.hpp>
#include <mailgrad/engine/account/trace_track.hpp>
#include <mailgrad/engine/shard/push_gradient.hpp>

#include <memory>
#include <string_view>
#include <utility>

namespace mailgrad {

/// Draws the moments, waits and work of a shard into its timeline, if there is one.
class shard_timeline {
public:
  /// `track` may be null.
  shard_timeline(std::shared_ptr<const time_source> time, std::shared_ptr<trace_track> track)
      : time_(std::move(time)), track_(std::move(track)) {}
  /// Gradient `x` was applied and made `version`.
  void applied(const gradient_header& x, version_number version, instant begun, instant span) {
    if (!track_) return;
    track_->work({trace_kind::apply, begun, begun + span, x.id.worker.value, x.id.step.value,
                  x.version_read.value, version.value});
  }
  /// The shard was idle until it took a gradient that `arrived`. `batch_begun`: it waited for the rest of a
  /// batch. `follows`: it may also have waited for the first shard's verdict.
  void idle(bool batch_begun, instant arrived, bool follows) {
    if (!track_) return;
    track_->wait(batch_begun ? trace_kind::rest_of_batch : trace_kind::gradient, arrived);
    if (follows) track_->wait(trace_kind::word_of_first_shard, time_->now());
  }
  void moment(trace_kind what, const gradient_header& x, std::string_view word) {
    if (!track_) return;
    const instant now = time_->now();
    track_->moment({what, now, now, x.id.worker.value, x.id.step.value, x.version_read.value, 0, word});
  }

  /// Gives the track away, at the end.
  std::shared_ptr<trace_track> take() { return std::move(track_); }

private:
  std::shared_ptr<const time_source> time_;
  std::shared_ptr<trace_track> track_;
};

} // namespace mailgrad
